"""The changes that `mutants` makes, found in the syntax tree of a file."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FLIPPED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}


@dataclass(frozen=True)
class Mutation:
    """One change of one file: the text between two offsets, in characters, is replaced."""

    path: str
    begin: int
    end: int
    new: str
    old: str
    line: int
    """The number of the line where the changed code begins."""

    def __str__(self) -> str:
        """Return the change for people: line, old and new code."""
        return f"line {self.line}: {joined(self.old)!r} -> {self.new!r}"

    def apply(self, root: Path) -> str:
        """Change the file of a copy; return the file's text before the change."""
        file = root / self.path
        text = file.read_text(encoding="utf-8")
        file.write_text(text[: self.begin] + self.new + text[self.end :], encoding="utf-8")
        return text

    def compared(self, text: str) -> tuple[str, str]:
        """Return the changed lines of the file's text before and after the change, each joined to one line."""
        first, last = text.rfind("\n", 0, self.begin) + 1, f"{text}\n".find("\n", self.end)
        before, after = text[first:last], text[first : self.begin] + self.new + text[self.end : last]
        return joined(before), joined(after)


def joined(code: str) -> str:
    """Return code with every run of white space as one space."""
    return " ".join(code.split())


def mutations_by_function(root: Path, path: str) -> dict[str, list[Mutation]]:
    """Return every possible change in a function of a file, by the innermost function, in the order of the lines."""
    innermost = {number: name for name, lines in functions(root, path) for number in lines}
    found: dict[str, list[Mutation]] = defaultdict(list)
    for number, changes in sorted(mutations(root, path).items()):
        if number in innermost:
            found[innermost[number]] += changes
    return found


def functions(root: Path, path: str) -> Iterator[tuple[str, range]]:
    """Yield each function of a file with the lines of its body, inner functions after those around them."""

    def inside(node: ast.AST, prefix: str) -> Iterator[tuple[str, range]]:
        for child in ast.iter_child_nodes(node):
            name = prefix + getattr(child, "name", "") + "." if isinstance(child, SCOPES) else prefix
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path}:{name[:-1]}", range(child.body[0].lineno, (child.end_lineno or 0) + 1)
            yield from inside(child, name)

    yield from inside(ast.parse((root / path).read_text(encoding="utf-8")), "")


SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def mutations(root: Path, path: str) -> dict[int, list[Mutation]]:
    """Return every possible change of a file below `root` by the number of the line where the changed code begins."""
    text = (root / path).read_text(encoding="utf-8")
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def offset(line: int, column: int) -> int:
        row = text[starts[line - 1] : starts[line]]
        return starts[line - 1] + len(row.encode()[:column].decode())  # the parser counts columns in bytes

    found: dict[int, list[Mutation]] = defaultdict(list)
    tree = ast.parse(text)
    misspelt = _misspelt(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt) and node.end_lineno:
            begin, end = offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset or 0)
            changed = [*_changed(node, text), *misspelt.get(node, ())]
            found[node.lineno] += [Mutation(path, begin, end, new, text[begin:end], node.lineno) for new in changed]
    return found


def _misspelt(tree: ast.Module) -> dict[ast.AST, list[str]]:
    """Return another text for each value of a dictionary that is a text, if its key is a constant."""
    return {
        value: [repr(f"{value.value}x")]
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(value, ast.Constant) and isinstance(value.value, str)
    }


def _changed(node: ast.expr | ast.stmt, text: str) -> Iterator[str]:
    """Yield the code that may stand in a node's place."""

    def source(part: ast.AST) -> str:
        return ast.get_source_segment(text, part) or ""

    match node:
        case ast.Constant(value=bool(value)):
            yield str(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield str(value + 1)
            if value:
                yield str(value - 1)
        case ast.Compare(ops=[op], comparators=[right]):
            yield f"({source(node.left)}) {FLIPPED[type(op)]} ({source(right)})"  # segments lack their parentheses
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield f"bool({source(operand)})"
        case ast.BoolOp(op=op, values=values):
            word = " or " if isinstance(op, ast.And) else " and "
            yield "(" + word.join(f"({source(value)})" for value in values) + ")"
        case ast.IfExp():
            yield f"({source(node.orelse)})"
            yield f"({source(node.body)})"
        case ast.Expr(value=ast.Call() | ast.YieldFrom() | ast.Await()) | ast.Raise() | ast.Delete():
            yield "pass"
        case _:
            return
