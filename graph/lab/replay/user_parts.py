"""Loads the strategies, triggers and key information of a user from the Python file of `--use`."""

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from langgraph_compaction.nodes import CompactionSettings, SettingsError
from langgraph_compaction.nodes.config.triggers import Own

from ...build_dependencies import Extensions

NAMES = ("STRATEGIES", "TRIGGERS", "KEY_INFORMATION")
"""Names of the dicts that a user's file may define.

Each dict is the field of `Extensions` with the same name in lower case.
"""


@dataclass(frozen=True, kw_only=True)
class UserParts(Extensions):
    """The dicts of a user's file."""

    file: str = ""
    key_information: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def expect_use(self, settings: CompactionSettings) -> None:
        """Raise `SettingsError` if the settings use no part of the file: a replay would then show only the preset."""
        named = {*settings.policy.strategies, *settings.key_information}
        named |= {trigger.name for trigger in settings.triggers if isinstance(trigger, Own)}
        brought = {name: f"strategies: [{name}]" for name in self.strategies}
        brought |= {name: f"triggers: [{{kind: own, name: {name}}}]" for name in self.triggers}
        brought |= {name: f"key_information: [{name}]" for name in self.key_information}
        if brought and not named & brought.keys():
            raise SettingsError(
                f"{self.file}: the settings use none of its functions ({', '.join(brought)}); name one in "
                f"--config, such as {next(iter(brought.values()))}"
            )


def load_user_parts(named: str) -> UserParts:
    """Import a file, or a module by name, and return its dicts; raise `SettingsError` if the import fails."""
    module = _imported(named)
    given: dict[str, Mapping[str, Any]] = {}
    for name in NAMES:
        parts = getattr(module, name, {})
        if not isinstance(parts, Mapping) or not all(isinstance(key, str) for key in parts):
            raise SettingsError(f"{named}: {name} is {type(parts).__name__}; it is a dict of names and functions")
        given[name.lower()] = parts
    if not any(given.values()):
        raise SettingsError(f"{named}: has none of {', '.join(NAMES)}; each is a dict of names and functions")
    return UserParts(file=named, **given)


def _imported(named: str) -> ModuleType:
    path = Path(named)
    try:
        if path.suffix == ".py" or path.exists():
            return _executed(path)
        sys.path.insert(0, "")  # find modules in the current folder, as `python -m` does
        return importlib.import_module(named)
    except SettingsError:
        raise
    except Exception as error:
        raise SettingsError(f"{named}: cannot be imported ({type(error).__name__}: {error})") from error


def _executed(path: Path) -> ModuleType:
    if not path.is_file():
        raise SettingsError(f"{path}: no such file")
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SettingsError(f"{path}: not a Python file; its name must end in .py")
    module = module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # dataclasses look up their module by its name
    spec.loader.exec_module(module)
    return module
