"""Tests of others that end otherwise with ours, by suite: the columns, a pattern of test names, and the reason."""

from typing import Final

OURS: Final = ("sqlite", "postgresql", "mariadb")
SERVERS: Final = {"postgresql": "TEST_POSTGRES_URL", "mariadb": "TEST_MARIADB_URL"}
"""The variable that holds the URL of each database server."""
INSIDE: Final = "the test looks into their saver: its connection, its tables or its SQL"
WRITES: Final = "the key `writes` of metadata is not stored: langgraph-checkpoint and PostgresSaver leave it out, too"
CYCLE: Final = (
    "a chain of parents that leads back to itself is an error that names the checkpoint, not an empty history"
)
AGENT: Final = ("middleware",)
DRAWN: Final = "the drawing of an agent shows the node of our middleware"
ON_A_LOOP: Final = "the test runs a synchronous agent on an event loop, and our records are written there, too"
IDS: Final = "a tool call that has no id gets one in the model's answer, so that its result can be paired with it"
NONE: Final = (
    "a stored None is a value, as in the saver in memory; the JSON of PostgresSaver cannot tell it from none"
)
LATER: Final = (
    "the saver in memory gives a delta channel's snapshot to later checkpoints, too; SqliteSaver does not, either"
)
NAMED: Final = "the test compares a drawing with a stored one for the saver in memory alone, under that saver's name"
Known = tuple[tuple[str, ...], str, str]
DRAWINGS: Final = (
    "test_conditional_state_graph",
    "test_message_graph",
    "test_send_react_interrupt_control",
    "test_in_one_fan_out_state_graph_waiting_edge",
    "test_in_one_fan_out_state_graph_defer_node",
    "test_in_one_fan_out_state_graph_waiting_edge_via_branch",
    "test_in_one_fan_out_state_graph_waiting_edge_custom_state_class_pydantic2",
)

KNOWN: Final[dict[str, tuple[Known, ...]]] = {
    "pregel": tuple((OURS, f"*::{test}[[]saver*", NAMED) for test in DRAWINGS),
    "delta": ((OURS, "*::test_counter_reset_after_supersteps_snapshot", LATER),),
    "sqlite-saver": (
        (OURS, "*::test_combined_metadata", WRITES),
        (OURS, "*::test_search", WRITES),
        (OURS, "*::test_asearch", WRITES),
        (OURS, "*::test_informative_async_errors", "our synchronous saver has asynchronous methods that work"),
        (
            OURS,
            "*::test_checkpoint_search_sql_injection_prevention",
            "a filter's key is never a part of SQL: any is allowed",
        ),
        (
            OURS,
            "*::test_metadata_filter_keys_with_hyphens_and_digits",
            "a dot in a filter's key is a part of the key",
        ),
        (OURS, "*::test_walk_terminates_when_put_makes_the_parent_chain_cycle", CYCLE),
        (OURS, "*::test_walk_step_looks_up_the_parent_by_primary_key", INSIDE),
        (OURS, "tests/test_writes_task_path_migration.py::*", INSIDE),
    ),
    "postgres-saver": (
        (OURS, "*::test_nonnull_migrations", INSIDE),
        (
            OURS,
            "*::test_pending_sends_migration*",
            "it never stored checkpoints of version 3, and an import reads theirs as version 4",
        ),
        (OURS, "*::test_get_checkpoint_no_channel_values*", INSIDE),
        (OURS, "*::test_*sync_walk_reads_nothing_newer_than_the_target", INSIDE),
        (OURS, "*::test_inline_primitive_seed_is_found", NONE),
        (
            OURS,
            "*::test_async_saver_prune_runs_from_another_thread_only",
            "our synchronous methods run in every thread",
        ),
        (OURS, "tests/test_prune.py::*", INSIDE),
    ),
    "agents": (
        (AGENT, "*::test_async_middleware_with_can_jump_to_graph_snapshot", DRAWN),
        (AGENT, "*::test_create_agent_diagram", DRAWN),
        (AGENT, "*::TestAgentMiddlewareHooks::*-False]", ON_A_LOOP),
        (AGENT, "*::TestAgentHooksCombined::test_execution_order[[]False]", ON_A_LOOP),
        (AGENT, "*::test_per_call_needs_a_tool_call_id", IDS),
        (AGENT, "*::test_per_call_same_tool_twice_routes_each_answer_to_its_own_call", IDS),
        (AGENT, "*::test_create_agent_patches_only_invalid_tool_calls_with_ids[[]None-False]", IDS),
        (
            AGENT,
            "*::test_create_agent_answers_invalid_tool_calls_on_next_turn",
            "our words tell the model that a call was malformed",
        ),
    ),
}
