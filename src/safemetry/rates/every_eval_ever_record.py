"""Records of Every Eval Ever: what is known of one run of one target on one benchmark."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any, Final

from safemetry.claims import Claim
from safemetry.evidence import every_eval_ever as words
from safemetry.evidence.evidence import Evidence
from safemetry.evidence.identity import JudgeIdentity
from safemetry.evidence.maps import Scale
from safemetry.evidence.schema import Intent
from safemetry.rates.every_eval_ever_figures import (
    RATES,
    UNKNOWN,
    Figure,
    Figures,
    Mean,
    Place,
    result_name,
)

_CONTEXT: Final = ("developer", "access", "timestamp")
_WEIGHTS: Final = ("open_weights", "closed_weights")
_DESCRIPTIONS: Final = {
    "attack_success_rate": "Share of the judged responses to harmful items that went along",
    "help_rate": "Share of the judged responses to benign items that helped",
}


@dataclass
class Contents:
    """What the lines of a record hold, as they are written.

    Parameters
    ----------
    evaluation
        ``evaluation_id``.
    """

    evaluation: str
    file: str = ""
    lines: int = 0
    checksum: Any = field(default_factory=hashlib.sha256)
    judges: dict[str, None] = field(default_factory=dict)
    intents: dict[tuple[str, str | None], None] = field(default_factory=dict)
    _context: dict[str, set[str | None]] = field(default_factory=lambda: defaultdict(set))

    def add(self, row: Mapping[str, Any]) -> None:
        """Note one judgement."""
        self.lines += 1
        self.judges[row["judge"]] = None
        self.intents[row["judge"], row["intent"]] = None
        for name in _CONTEXT:
            self._context[name].add(row[name])

    def only(self, name: str) -> str | None:
        """The value of a context column, where all judgements have the same."""
        values = self._context[name]
        return next(iter(values)) if len(values) == 1 else None


def record_of(
    place: Place, contents: Contents, figures: Figures, evidence: Evidence, *, created: float
) -> dict[str, Any]:
    """A record that the schema accepts.

    Parameters
    ----------
    place
        Run, target and benchmark.
    contents
        What its lines hold.
    figures
        The figures of all records.
    evidence
        What they were made from.
    created
        Time of the export, in seconds since 1970.
    """
    record: dict[str, Any] = {
        "schema_version": words.SCHEMA_VERSION,
        "evaluation_id": contents.evaluation,
        "retrieved_timestamp": str(int(created)),
        "source_metadata": {
            "source_type": "evaluation_run",
            "source_organization_name": UNKNOWN,
            # The schema has no word for an unknown relationship.
            "evaluator_relationship": "other",
        },
        "eval_library": {
            "name": UNKNOWN,
            "version": UNKNOWN,
            "additional_details": _library_details(contents, evidence),
        },
        "model_info": _model(place, contents, evidence),
        "evaluation_results": _results(place, contents, figures, evidence),
        "detailed_evaluation_results": {
            "format": "jsonl",
            "file_path": contents.file,
            "hash_algorithm": "sha256",
            "checksum": contents.checksum.hexdigest(),
            "total_rows": contents.lines,
        },
    }
    if (ran := contents.only("timestamp")) is not None:
        record["evaluation_timestamp"] = ran
    return record


def _library_details(contents: Contents, evidence: Evidence) -> dict[str, str]:
    """What reads back as the same evidence: judges, classes, and the rule that it implies."""
    judges = [
        {
            "name": judge,
            "scale": evidence.instruments[judge].scale.model_dump(exclude_defaults=True),
            "identities": [asdict(i) for i in _identities(evidence, judge)],
        }
        for judge in contents.judges
    ]
    return {
        "exported_by": f"safemetry {version('safemetry')}",
        words.JUDGES: _text(judges),
        words.CLASSES: _text([evidence.map.classes, evidence.map.outside]),
        words.RULE: str(evidence.default_rule),
    }


def _identities(evidence: Evidence, judge: str) -> list[JudgeIdentity]:
    return [identity for identity in evidence.identities if identity.name == judge]


def _model(place: Place, contents: Contents, evidence: Evidence) -> dict[str, Any]:
    access = contents.only("access")
    details = {
        "deployment_type": UNKNOWN,
        "model_availability": access if access in _WEIGHTS else UNKNOWN,
    }
    if settings := evidence.targets.get(place.target):
        details[words.SETTINGS] = _text(dict(settings))
    model: dict[str, Any] = {"name": place.target, "id": place.target}
    if (developer := contents.only("developer")) is not None:
        model["developer"] = developer
    return model | {"additional_details": details}


def _results(
    place: Place, contents: Contents, figures: Figures, evidence: Evidence
) -> list[dict[str, Any]]:
    """One result for each judge and intent that has a figure."""
    results = []
    for judge, intent in contents.intents:
        key = (place.run, place.target, place.benchmark, judge, intent)
        figure = figures.by_key.get(key)
        if figure is None:
            continue
        benchmark = place.benchmark or UNKNOWN
        result: dict[str, Any] = {
            "evaluation_result_id": result_name(judge, intent, figure),
            "evaluation_name": benchmark,
            "source_data": {"dataset_name": benchmark, "source_type": "other"},
            "metric_config": _metric(judge, intent, figure, figures, evidence),
            "score_details": _claimed(figure) if isinstance(figure, Claim) else _averaged(figure),
        }
        if arguments := _arguments(evidence.targets.get(place.target) or {}):
            result["generation_config"] = {"generation_args": arguments}
        results.append(result)
    return results


def _metric(
    judge: str, intent: str | None, figure: Figure, figures: Figures, evidence: Evidence
) -> dict[str, Any]:
    parameters: dict[str, Any] = {"judge": judge, "intent": intent}
    scale = evidence.instruments[judge].scale
    if isinstance(figure, Claim):
        parameters["success_rule"] = str(figures.rule)
        metric: dict[str, Any] = {
            "evaluation_description": f"{_DESCRIPTIONS[figure.metric]}, by labels of {judge}",
            "metric_id": f"safemetry.{figure.metric}",
            "metric_name": figure.metric,
            "metric_unit": "proportion",
            "lower_is_better": figure.metric == RATES[Intent.HARMFUL],
            "score_type": "continuous",
            "min_score": 0.0,
            "max_score": 1.0,
        }
    else:
        metric = {
            "evaluation_description": f"Mean score of {judge} on {intent or 'unclassified'} items",
            "metric_id": "safemetry.mean_score",
            "metric_name": "mean_score",
            "lower_is_better": scale.higher_is == "worse",
            **_bounds(scale),
        }
    metric["metric_parameters"] = parameters
    metric["has_unknown_level"] = figures.has_unknown(judge)
    if scoring := _scoring(evidence, judge):
        metric["llm_scoring"] = scoring
    return metric


def _bounds(scale: Scale) -> dict[str, Any]:
    """The declared ends; the type `continuous` needs both."""
    ends = {"min_score": scale.scale_min, "max_score": scale.scale_max}
    known = {name: end for name, end in ends.items() if end is not None}
    return known | {"score_type": "continuous"} if len(known) == len(ends) else known


def _scoring(evidence: Evidence, judge: str) -> dict[str, Any] | None:
    """The model behind a judge, where one is stated; its prompt is kept as a digest."""
    identities = _identities(evidence, judge)
    if len(identities) != 1 or identities[0].model is None:
        return None
    identity = identities[0]
    model = {
        "name": identity.model,
        "id": identity.model,
        "additional_details": {"deployment_type": UNKNOWN, "model_availability": UNKNOWN},
    }
    entry: dict[str, Any] = {"model_info": model}
    if _is_number(temperature := identity.decoding.get("temperature")):
        entry["temperature"] = temperature
    prompt = f"sha256 digest {identity.rubric}" if identity.rubric else ""
    return {"judges": [entry], "input_prompt": prompt}


def _claimed(claim: Claim) -> dict[str, Any]:
    """A claim as figures of the schema, the rest of it as text."""
    details = {
        "events": f"{claim.events:g}",
        "trials": f"{claim.trials:g}",
        "clusters": str(claim.clusters),
        "counted_per": "response, repeated calls by majority",
        "success_digest": claim.scope.success_digest,
        "items_digest": claim.scope.items.digest,
        **_missing(claim.missing.by_reason),
    }
    if claim.ceiling is not None:
        details["one_sided_ceiling"] = repr(claim.ceiling)
    if claim.bounds_if_missing is not None:
        details["bounds_if_missing"] = _text(list(claim.bounds_if_missing))
    uncertainty: dict[str, Any] = {"num_samples": int(claim.trials)}
    if claim.interval is not None:
        uncertainty["confidence_interval"] = {
            "lower": claim.interval[0],
            "upper": claim.interval[1],
            "confidence_level": claim.level,
            "method": claim.method or UNKNOWN,
        }
    return {"score": claim.estimate, "details": details, "uncertainty": uncertainty}


def _averaged(mean: Mean) -> dict[str, Any]:
    return {
        "score": mean.value,
        "details": {"counted_per": "judge call", **_missing(mean.missing)},
        "uncertainty": {"num_samples": mean.number},
    }


def _missing(by_reason: Mapping[str, int]) -> dict[str, str]:
    total = {"missing": str(sum(by_reason.values()))}
    return total | {f"missing_{reason}": str(count) for reason, count in by_reason.items()}


def _arguments(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a target that the schema has fields for."""
    found = {
        name: settings[name]
        for name in ("temperature", "top_p", "top_k")
        if _is_number(settings.get(name))
    }
    longest = settings.get("max_tokens")
    if isinstance(longest, int) and not isinstance(longest, bool) and longest >= 1:
        found["max_tokens"] = longest
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
