"""What the user of the demonstration asks."""

from ...library_model import RULE

TICKET = "STD-4711"

_OPENING = f"We look through Python's standard library for ticket {TICKET}. {RULE} First: "
_CLOSING = "That was all. Close the ticket with one line that names its number and the modules found."
_PATTERNS = r"""
    subprocess\.|os\.fork|posix_spawn  socket\.socket\(|create_connection  \beval\(|\bexec\(  tempfile\.
    threading\.Thread  os\.environ  weakref\.  re\.compile\(  warnings\.warn  struct\.pack  pickle\.  heapq\.
    datetime\.  select\.  zlib\.|bz2\.  base64\.  traceback\.  os\.walk|os\.scandir  Lock\(\)  expat|ElementTree
""".split()  # noqa: SIM905 - twenty quoted regular expressions read worse
_ASKED = [f"Which modules use `{pattern}`?" for pattern in _PATTERNS]

QUESTIONS = (_OPENING + _ASKED[0], *_ASKED[1:], _CLOSING)
"""The user's messages. Each question carries its search pattern in backticks; the last message carries none."""
