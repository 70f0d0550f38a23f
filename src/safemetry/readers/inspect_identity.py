"""Who judged in an Inspect log, and how the target was called: whatever the header states.

Texts (rubrics, system messages, arguments) stand as digests only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from safemetry.evidence.identity import JudgeIdentity, text_digest
from safemetry.readers.inspect_scores import JudgeColumn

_DECODING: Final = frozenset(
    {
        "best_of",
        "effort",
        "frequency_penalty",
        "max_tokens",
        "presence_penalty",
        "reasoning_effort",
        "reasoning_tokens",
        "seed",
        "temperature",
        "top_k",
        "top_p",
    }
)
"""Settings that say how a model answers, carried as they are."""

_OPERATIONAL: Final = frozenset(
    {
        "adaptive_connections",
        "attempt_timeout",
        "batch",
        "cache",
        "cache_prompt",
        "max_connections",
        "max_retries",
        "stream_idle_timeout",
        "timeout",
    }
)
"""Generation settings that say how a model is called, not how it answers."""

_RUBRIC: Final = re.compile(r"(^|_)(template|instructions?|rubric|prompt)$")
_GRADER_OPTIONS: Final = ("model", "grader_model", "judge_model", "grader", "judge")
_GRADER_ROLE: Final = "grader"
_SELF_GRADING: Final = frozenset({"model_graded_fact", "model_graded_qa"})
"""Scorers of Inspect that use the evaluated model where no grader is bound."""

_RULES: Final = frozenset(
    {
        "answer",
        "choice",
        "exact",
        "f1",
        "includes",
        "match",
        "math",
        "pattern",
        "perplexity",
        "target_perplexity",
    }
)
"""Scorers of Inspect that call no grader."""


def judge_identity(column: JudgeColumn, header: Any) -> JudgeIdentity:
    """What the log states about a judge."""
    options = _options(column.scorer, header)
    model, decoding, several = _grader(column.scorer, options, header)
    rubric = [
        f"{key}: {value}"
        for key, value in sorted(options.items())
        if isinstance(value, str) and _RUBRIC.search(key)
    ]
    stated = {key: value for key, value in options.items() if value is not None}
    return JudgeIdentity(
        name=column.name,
        model=model,
        decoding=decoding | _decoding(options),
        rubric=text_digest("\n".join(rubric)) if rubric else None,
        parser=f"{column.scorer}@{_digest(stated)}" if stated else column.scorer,
        aggregation=str(options.get("reducer") or "majority") if several else None,
    )


def _options(scorer: str, header: Any) -> dict[str, Any]:
    for stated in header.eval.scorers or ():
        if scorer == stated.name or scorer == stated.name.rpartition("/")[2]:
            return dict(stated.options or {})
    if header.results is not None:
        for score in header.results.scores:
            if scorer in {score.scorer, score.name}:
                return dict(score.params)
    return {}


def _grader(
    scorer: str, options: Mapping[str, Any], header: Any
) -> tuple[str | None, dict[str, Any], bool]:
    """Grader model, its decoding parameters, and whether there are several."""
    for option in _GRADER_OPTIONS:
        if options.get(option):
            named = options[option]
            models = [
                _model_name(model) for model in (named if isinstance(named, list) else [named])
            ]
            if all(models):
                return ", ".join(map(str, models)), {}, len(models) > 1
    calls_grader = scorer not in _RULES
    role = options.get("model_role", _GRADER_ROLE if calls_grader else None)
    bound = (header.eval.model_roles or {}).get(_model_name(role) or "")
    if bound:
        configs = bound if isinstance(bound, list) else [bound]
        settings = [_decoding(config.config.model_dump(exclude_none=True)) for config in configs]
        decoding = (
            settings[0]
            if len(settings) == 1
            else {
                config.model: each for config, each in zip(configs, settings, strict=True) if each
            }
        )
        return ", ".join(config.model for config in configs), decoding, len(configs) > 1
    return (header.eval.model if scorer in _SELF_GRADING else None), {}, False


def _model_name(stated: Any) -> str | None:
    """A model as an option states it: its name, or a record that has the name."""
    if isinstance(stated, Mapping):
        inner = stated.get("params")
        stated = inner if isinstance(inner, Mapping) else stated
        stated = stated.get("model") or stated.get("name")
    return stated if isinstance(stated, str) and stated else None


def _decoding(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: settings[key]
        for key in sorted(_DECODING & settings.keys())
        if settings[key] is not None
    }


def target_settings(header: Any) -> dict[str, Any]:
    """How the target was called: decoding parameters as they are, anything textual as a digest."""
    stated = header.eval.model_generate_config.model_dump(exclude_none=True)
    stated |= header.plan.config.model_dump(exclude_none=True)
    settings = {
        key: value if isinstance(value, bool | int | float) or key in _DECODING else _digest(value)
        for key, value in sorted(stated.items())
        if key not in _OPERATIONAL and key != "system_message"
    }
    steps = [step.solver for step in header.plan.steps]
    system = [stated["system_message"]] if "system_message" in stated else []
    system += [
        step.params["template"]
        for step in header.plan.steps
        if step.solver.rpartition("/")[2] == "system_message" and "template" in step.params
    ]
    if system:
        settings["system_message"] = _digest(system)
    if steps:
        settings["solvers"] = ", ".join(steps)
    params = [step.params for step in header.plan.steps]
    if any(params):
        settings["solver_args"] = _digest(params)
    if header.eval.model_args:
        settings["model_args"] = _digest(header.eval.model_args)
    if header.eval.model_base_url:
        settings["model_base_url"] = _digest(header.eval.model_base_url)
    return settings


def _digest(value: Any) -> str:
    return text_digest(json.dumps(value, sort_keys=True, ensure_ascii=False, default=str))
