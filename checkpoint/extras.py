"""Says how to install an optional part (an *extra*) of this package."""

INSTALL = "pip install '.[{extra}]' in the project's folder"
"""The command that error messages give. A release replaces `.` by the name of the package, here alone."""


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra, for an error message."""
    return INSTALL.format(extra=extra)
