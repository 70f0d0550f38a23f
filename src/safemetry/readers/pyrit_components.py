"""Components of PyRIT (targets, attacks, scorers, converters), as every release identifies them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final
from urllib.parse import urlsplit

from safemetry.errors import InputError
from safemetry.evidence.identity import JudgeIdentity
from safemetry.readers.fields import digest_of, encodable

_DEEPEST: Final = 20
_NAMES: Final = ("class_name", "__type__")
_MODULES: Final = ("class_module", "__module__")
_PARTS: Final = frozenset(
    {
        *_NAMES,
        *_MODULES,
        "children",
        "class_description",
        "eval_hash",
        "hash",
        "id",
        "identifier_type",
        "params",
        "pyrit_version",
        "scorer_specific_params",
        "sub_identifier",
        "target_info",
        "unique_name",
    }
)
"""What an identifier says beside the parameters: names, digests of PyRIT, its description."""

_MODEL_NAMES: Final = ("underlying_model_name", "model_name")
_SHOWN: Final = (*_MODEL_NAMES, "score_aggregator")
"""Parameters that are carried out as they are written."""
_DECODING: Final = ("temperature", "top_p")
_ROLES: Final = ("scorer_type", "score_aggregator")


@dataclass(frozen=True)
class Component:
    """A target, attack, scorer or converter.

    Parameters
    ----------
    name, module
        Its class.
    version
        Release of PyRIT that wrote it, where stated.
    params
        Its parameters. They may hold texts, so only their digest is carried out.
    children
        Slot -> the components in it.
    """

    name: str
    module: str = ""
    version: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    children: Mapping[str, Sequence[Component]] = field(default_factory=dict)

    def child(self, *path: str) -> Component | None:
        """The first component under a path of slots."""
        found: Component | None = self
        for slot in path:
            inside = found.children.get(slot) if found else None
            found = inside[0] if inside else None
        return found

    @cached_property
    def content(self) -> dict[str, Any]:
        """Everything that could change what it does; the release of PyRIT is left out."""
        return {
            "class": [self.module, self.name],
            "params": dict(self.params),
            "children": {
                slot: [child.content for child in inside] for slot, inside in self.children.items()
            },
        }

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits over its content."""
        return content_digest(self.content)

    def walk(self) -> Iterator[Component]:
        """The component and all that it is made of."""
        yield self
        for inside in self.children.values():
            for child in inside:
                yield from child.walk()


def content_digest(content: Any) -> str:
    """Sixteen hexadecimal digits over JSON content."""
    return digest_of(json.dumps(content, sort_keys=True))


def component_of(stored: Any, column: str, depth: int = 0) -> Component | None:
    """A component as a release of PyRIT wrote it; None where nothing names a class.

    What was made a component before stays that component.

    Raises
    ------
    InputError
        Where it is no object, or components are nested without end.
    """
    if isinstance(stored, Component):
        return stored
    if stored is None or stored == {}:
        return None
    if not isinstance(stored, Mapping) or depth > _DEEPEST:
        problem = "is no identifier of PyRIT" if depth <= _DEEPEST else "is nested too deep"
        raise InputError(problem, column=column, fix="export it again")
    name = _first_text(stored, _NAMES)
    if name is None:
        return None
    params = {key: value for key, value in stored.items() if key not in _PARTS}
    for extra in ("params", "scorer_specific_params"):
        if isinstance(stored.get(extra), Mapping):
            params |= stored[extra]
    version = _first_text(stored, ("pyrit_version",))
    for shown in (name, version, *(params.get(key) for key in _SHOWN)):
        if isinstance(shown, str):
            encodable(shown, column)
    slots = stored.get("children")
    inside = dict(slots) if isinstance(slots, Mapping) else {}
    for old, slot in (("sub_identifier", "sub_scorers"), ("target_info", "prompt_target")):
        if stored.get(old):
            inside.setdefault(slot, stored[old])
    children = {
        str(slot): found
        for slot, entries in inside.items()
        if (found := components_of(entries, column, depth + 1))
    }
    return Component(
        name,
        _first_text(stored, _MODULES) or "",
        version,
        {key: value for key, value in params.items() if value not in (None, "")},
        children,
    )


def components_of(stored: Any, column: str, depth: int = 0) -> tuple[Component, ...]:
    """The components of a list, or the one that stands alone."""
    if isinstance(stored, tuple):
        return stored
    listed = stored if isinstance(stored, list) else [stored]
    found = (component_of(entry, column, depth) for entry in listed)
    return tuple(component for component in found if component is not None)


def _first_text(stored: Mapping[str, Any], names: Sequence[str]) -> str | None:
    found = (stored.get(name) for name in names)
    return next((value for value in found if isinstance(value, str) and value.strip()), None)


def attack_of(stored: Component | None) -> Component | None:
    """The attack inside the identifier of a whole attack run; older releases stored it bare."""
    if stored is None:
        return None
    return stored.child("attack_technique", "attack") or stored.child("attack") or stored


def model_of(target: Component) -> str | None:
    """The model behind a target, where stated."""
    return _first_text(target.params, _MODEL_NAMES)


def target_name(target: Component) -> str:
    """Class and model of a target."""
    model = model_of(target)
    return encodable(f"{target.name}/{model}" if model else target.name, "target_identifier")


def target_settings(target: Component) -> dict[str, Any]:
    """How a target was set up; of an endpoint without user, password and query."""
    settings: dict[str, Any] = {
        name: value
        for name, value in target.params.items()
        if isinstance(value, bool | int | float) or (name in _MODEL_NAMES and value)
    }
    endpoint = target.params.get("endpoint")
    if isinstance(endpoint, str) and endpoint:
        settings["endpoint"] = _without_secrets(endpoint)
    if target.params or target.children:
        settings["identifier"] = target.digest
    return settings


def _without_secrets(endpoint: str) -> str:
    try:
        parts = urlsplit(encodable(endpoint, "endpoint"))
    except (ValueError, InputError):
        return digest_of(endpoint)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def attack_name(attack: Component | None, converters: Sequence[Component]) -> str | None:
    """The class of an attack, with the converters that rewrote its prompts."""
    names = [attack.name] if attack else []
    names += dict.fromkeys(converter.name for converter in converters)
    return "+".join(names) or None


def sub_scorers(scorer: Component) -> Sequence[Component]:
    """The scorers that a scorer is made of."""
    return scorer.children.get("sub_scorers", ())


def grader_of(scorer: Component) -> str | None:
    """The models that a scorer asks, by name."""
    asked = [
        target_name(target)
        for part in scorer.walk()
        for target in part.children.get("prompt_target", ())
    ]
    return ", ".join(dict.fromkeys(asked)) or None


def identity_of(name: str, scorer: Component, version: str | None) -> JudgeIdentity:
    """The identity of a scorer: its class, parameters, sub-scorers and model.

    Parameters
    ----------
    name
        Name of the judge in the table.
    scorer
        The scorer.
    version
        Release of PyRIT where the scorer does not state it.
    """
    grader = scorer.child("prompt_target")
    asked = {key: value for key, value in scorer.params.items() if key not in _ROLES}
    parts = {"params": asked, "sub_scorers": [part.content for part in sub_scorers(scorer)]}
    release = scorer.version or version
    aggregation = scorer.params.get("score_aggregator")
    return JudgeIdentity(
        name=name,
        model=grader_of(scorer),
        decoding={
            key: grader.params[key]
            for key in _DECODING
            if grader is not None and isinstance(grader.params.get(key), int | float)
        },
        rubric=content_digest(parts) if asked or sub_scorers(scorer) else None,
        parser=f"PyRIT {release} {scorer.name}" if release else f"PyRIT {scorer.name}",
        aggregation=encodable(aggregation, "score_aggregator")
        if isinstance(aggregation, str)
        else None,
    )
