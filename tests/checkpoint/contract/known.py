"""What the peers are known to get wrong: test -> class of saver -> why. Each must fail; none is ever ours."""

IN_MEMORY = ("InMemorySaver",)
SQLITE = ("SqliteSaver", "AsyncSqliteSaver")
POSTGRES = ("PostgresSaver", "AsyncPostgresSaver")


def _by(names: tuple[str, ...], reason: str) -> dict[str, str]:
    return dict.fromkeys(names, reason)


_LATEST = _by((*IN_MEMORY, *SQLITE, *POSTGRES), "takes the greatest id for the latest")
HANGS = "holds the lock of its connection between two items of a list"
"""What then waits never ends, and cannot be ended: these are run with --runxfail only."""
_LOCK = _by((*SQLITE, *POSTGRES), HANGS)
_VERSION = "keys values by version, and counts on the random end that its own version numbers have"

KNOWN_FAILURES: dict[str, dict[str, str]] = {
    # writes
    "test_a_special_write_beside_a_plain_one_is_kept": _by(IN_MEMORY, "replaces special writes always"),
    # forks
    "test_forks_that_share_a_version_number_keep_their_values": _by(IN_MEMORY, _VERSION),
    "test_forks_of_messages_that_share_a_version_number_keep_them": _by((*IN_MEMORY, *POSTGRES), _VERSION),
    "test_a_clock_that_steps_back_hides_nothing": _LATEST,
    # lists
    "test_a_list_may_be_read_between": _LOCK,
    "test_a_list_may_be_written_between": _LOCK | _by(IN_MEMORY, "goes through a dict that a new namespace changes"),
    "test_a_list_left_open_holds_nobody_up": _LOCK,
    "test_a_list_without_a_namespace_goes_through_all_of_them": _by(IN_MEMORY, "lists one namespace after another"),
    "test_a_filter_wants_the_whole_value": _by(POSTGRES, "a filter is containment"),
    "test_a_filter_key_is_a_name_and_nothing_else": _by(SQLITE, "a filter key is a path, and refused if it is odd"),
    # atomicity
    "test_a_refused_row_undoes_the_whole_call": _by(SQLITE, "commits what was done before the error"),
    "test_a_write_that_cannot_be_serialized_stores_none": _by(IN_MEMORY, "stores one write after another"),
    # types
    "test_a_value_that_json_does_not_know_comes_back": _by(POSTGRES, "stores small values as JSON"),
    "test_a_class_that_is_not_allowed_never_becomes_another_value": _by(
        (*IN_MEMORY, *SQLITE, *POSTGRES), "reads a class that is not allowed as its bare fields"
    ),
    # names
    "test_tasks_and_channels_with_similar_names_are_different": _by(
        POSTGRES, "cannot read a channel with a backslash in its name"
    ),
    "test_a_number_may_name_a_thread": _by((*IN_MEMORY, *POSTGRES), "takes only a text for the id of a thread"),
    # delta channels
    "test_pruning_keeps_what_a_rebuilt_channel_holds": _by(POSTGRES, "refuses threads with a DeltaChannel"),
}
