"""Tests of others that end otherwise with ours, by suite: the columns, a pattern of test names, and the reason."""

from typing import Final

OURS: Final = ("sqlite", "postgresql", "mariadb")
SERVERS: Final = {"postgresql": "TEST_POSTGRES_URL", "mariadb": "TEST_MARIADB_URL"}
"""The variable that holds the URL of each database server."""
INSIDE: Final = "the test reads internals of the original saver: its connection, its tables or its SQL"
WRITES: Final = (
    "the key `writes` of the metadata is not stored; langgraph-checkpoint and PostgresSaver do not store it either"
)
CYCLE: Final = (
    "for a checkpoint that is its own ancestor, this package raises an error instead of returning an empty history"
)
AGENT: Final = ("middleware",)
DRAWN: Final = "the drawing of the agent also shows the node of the middleware"
ON_A_LOOP: Final = (
    "the test forbids blocking calls on the event loop, but runs a synchronous agent there, and the middleware then "
    "writes to its database on the event loop"
)
IDS: Final = "this package adds an id to a tool call that has none, so that a result can refer to the call"
NONE: Final = (
    "this package reads a stored `None` as a value, as `InMemorySaver` does; PostgresSaver reads it as missing"
)
LATER: Final = (
    "the test expects that later checkpoints also contain the whole value that a `DeltaChannel` stores now and then; "
    "only `InMemorySaver` does this, so the test also fails with SqliteSaver"
)
NAMED: Final = "the test compares a drawing with a stored drawing, which exists only for `InMemorySaver`"
BESIDE: Final = (
    "the test puts LangChain's SummarizationMiddleware beside this package's, which refuses that: the other would "
    "remove messages before they are stored"
)
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
        (
            OURS,
            "*::test_informative_async_errors",
            (
                "the test expects that a synchronous saver raises errors for asynchronous methods; in "
                "`SQLAlchemySaver`, these methods work"
            ),
        ),
        (
            OURS,
            "*::test_checkpoint_search_sql_injection_prevention",
            "the test expects an error for a filter key that contains SQL; this package never puts a key into SQL",
        ),
        (
            OURS,
            "*::test_metadata_filter_keys_with_hyphens_and_digits",
            "this package reads a dot in the key of a filter as a part of the key",
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
            "the test needs stored checkpoints of version 3, which this package never wrote",
        ),
        (OURS, "*::test_get_checkpoint_no_channel_values*", INSIDE),
        (OURS, "*::test_*sync_walk_reads_nothing_newer_than_the_target", INSIDE),
        (OURS, "*::test_inline_primitive_seed_is_found", NONE),
        (
            OURS,
            "*::test_async_saver_prune_runs_from_another_thread_only",
            (
                "the test expects that the method `prune` raises an error on the OS thread of the event loop; in "
                "this saver, `prune` works there"
            ),
        ),
        (OURS, "tests/test_prune.py::*", INSIDE),
    ),
    "agents": (
        (AGENT, "*::test_async_middleware_with_can_jump_to_graph_snapshot", DRAWN),
        (AGENT, "*::test_create_agent_diagram", DRAWN),
        (AGENT, "*::TestAgentMiddlewareHooks::*-False]", ON_A_LOOP),
        (AGENT, "*::TestAgentHooksCombined::test_execution_order[[]False]", ON_A_LOOP),
        (AGENT, "*::test_caller_supplied_metadata_cannot_forge_internal_marker", BESIDE),
        (AGENT, "*::test_summarization_middleware_e2e_failure_raises_without_corrupting_history", BESIDE),
        (AGENT, "*::test_summarization_call_excluded_from_messages_projection", BESIDE),
        (AGENT, "*::test_per_call_needs_a_tool_call_id", IDS),
        (AGENT, "*::test_per_call_same_tool_twice_routes_each_answer_to_its_own_call", IDS),
        (AGENT, "*::test_create_agent_patches_only_invalid_tool_calls_with_ids[[]None-False]", IDS),
        (
            AGENT,
            "*::test_create_agent_answers_invalid_tool_calls_on_next_turn",
            "this package uses other words to tell the model that a tool call was malformed",
        ),
    ),
}
