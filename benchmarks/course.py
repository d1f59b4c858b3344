"""The tokens of each request of the demonstration, beside those of all that was said by then.

    python -m benchmarks.course

Writes benchmarks/results/course.json.
"""

from itertools import accumulate

from langchain_core.messages import AIMessage

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.graph.lab.demo.investigation import Investigation
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from tests.kept_results import RESULTS, keep


def main() -> None:
    """Run the demonstration, and keep both sizes of each request."""
    counter = tiktoken_counter()
    saver = SQLAlchemySaver("sqlite://")
    saver.setup()
    work = Investigation(saver, counter, "course")
    for _ in work.work():
        pass
    before = accumulate(map(counter.message, work.said), initial=work.overhead)
    whole = [size for message, size in zip(work.said, before, strict=False) if isinstance(message, AIMessage)]
    rows = [
        {"request": number, "sent": sent, "said": said}
        for number, (sent, said) in enumerate(zip(work.requests, whole, strict=True), 1)
    ]
    keep(RESULTS / "course.json", rows, "request")
    print(f"{len(rows)} requests of at most {max(work.requests)} tokens; {whole[-1]} were said")


if __name__ == "__main__":
    main()
