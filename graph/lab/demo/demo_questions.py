"""What the user of the demonstration says, turn by turn."""

TICKET = "STD-4711"
RULE = "Never report test modules."
LANGUAGE = "答案请用英文。"
"""Please answer in English."""

_OPENING = f"We look through Python's standard library for ticket {TICKET}. {RULE} {LANGUAGE} First: "
_CLOSING = "That was all. Close the ticket with one line that names its number and the modules found."

_TOPICS = (
    ("start other processes", r"subprocess\.|os\.fork|posix_spawn"),
    ("open network sockets", r"socket\.socket\(|create_connection"),
    ("evaluate code at run time", r"\beval\(|\bexec\("),
    ("make temporary files", r"tempfile\."),
    ("start threads", r"threading\.Thread"),
    ("read environment variables", r"os\.environ"),
    ("hold weak references", r"weakref\."),
    ("compile regular expressions", r"re\.compile\("),
    ("warn of deprecations", r"warnings\.warn"),
    ("pack binary structures", r"struct\.pack"),
    ("pickle objects", r"pickle\."),
    ("use priority queues", r"heapq\."),
    ("work with dates", r"datetime\."),
    ("wait for file descriptors", r"select\."),
    ("compress data", r"zlib\.|bz2\."),
    ("encode in base64", r"base64\."),
    ("format exceptions", r"traceback\."),
    ("walk folders", r"os\.walk|os\.scandir"),
    ("take locks", r"Lock\(\)"),
    ("parse XML", r"expat|ElementTree"),
)

QUESTIONS = (
    *(
        f"{'' if number else _OPENING}Which modules {topic}? Search for `{pattern}`."
        for number, (topic, pattern) in enumerate(_TOPICS)
    ),
    _CLOSING,
)
"""Every input; a question carries its pattern in backticks, the last one carries none."""
