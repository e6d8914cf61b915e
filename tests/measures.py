"""How the code reads, in measures that wrapping lines cannot change."""

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LIMITS = {"branches": 12, "parameters": 8, "nodes": 450, "attributes": 15}
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTED = (ast.Module, ast.ClassDef, *FUNCTIONS)
BRANCHES = (ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.Assert)


def docstring_lines(tree: ast.Module) -> set[int]:
    """The numbers of the lines that docstrings take."""
    lines = set()
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            lines.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return lines


def tokens(text: str) -> int:
    """The number of tokens of a module, without docstrings, comments and layout."""
    skipped = docstring_lines(ast.parse(text))
    found = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type not in LAYOUT and token.start[0] not in skipped for token in found)


def long_lines(text: str) -> int:
    """The number of lines of code of more than 100 columns."""
    skipped = docstring_lines(ast.parse(text))
    rows = enumerate(text.splitlines(), start=1)
    return sum(len(row) > 100 and number not in skipped for number, row in rows)


def body_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of the body of a function, without those of the functions defined in it."""
    waiting = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, FUNCTIONS):
            waiting.extend(ast.iter_child_nodes(node))


def branches(function: ast.AST) -> int:
    """McCabe's number of a function."""
    count = 1
    for node in body_nodes(function):
        if isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            count += 1 + len(node.ifs)
        elif isinstance(node, BRANCHES):
            count += 1
    return count


def parameters(function: ast.AST) -> list[ast.arg]:
    """The parameters of a function, without `self` and `cls`."""
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return [one for one in named if one.arg not in ("self", "cls")]


def attributes(node: ast.ClassDef) -> set[str]:
    """The fields of a class, and the attributes that its methods set."""
    fields = [part.target for part in node.body if isinstance(part, ast.AnnAssign)]
    names = {field.id for field in fields if isinstance(field, ast.Name)}
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
            if isinstance(part.value, ast.Name) and part.value.id == "self":
                names.add(part.attr)
    return names


class Place(NamedTuple):
    """A function or a class that exceeds a limit."""

    where: str
    what: str


def sizes(node: ast.AST) -> dict[str, int]:
    """What is limited of a function or a class."""
    if isinstance(node, ast.ClassDef):
        return {"attributes": len(attributes(node))}
    if isinstance(node, FUNCTIONS):
        return {
            "branches": branches(node),
            "parameters": len(parameters(node)),
            "nodes": sum(1 for _ in body_nodes(node)),
        }
    return {}


def places_beyond_limits(path: Path) -> list[Place]:
    """The functions and classes of a module that exceed a limit."""
    places = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        beyond = [f"{name} {size}" for name, size in sizes(node).items() if size > LIMITS[name]]
        if beyond:
            places.append(Place(f"{path.stem}.{node.name}", ", ".join(beyond)))
    return places


def packed_assignments(tree: ast.Module) -> int:
    """The number of assignments with a tuple of targets and a tuple of values."""
    pairs = [
        (node.targets[0], node.value) for node in ast.walk(tree) if isinstance(node, ast.Assign)
    ]
    return sum(isinstance(a, ast.Tuple) and isinstance(b, ast.Tuple) for a, b in pairs)


def ternaries(tree: ast.Module) -> int:
    """The number of conditional expressions."""
    return sum(isinstance(node, ast.IfExp) for node in ast.walk(tree))


def signatures_with_any(tree: ast.Module) -> int:
    """The number of functions whose annotations name `Any`."""
    count = 0
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            notes = [one.annotation for one in parameters(node)] + [node.returns]
            named = [part for note in notes if note is not None for part in ast.walk(note)]
            count += any(isinstance(part, ast.Name) and part.id == "Any" for part in named)
    return count


def totals(paths: list[Path]) -> dict[str, int]:
    """All measures of some modules, added up."""
    texts = [path.read_text("utf-8") for path in paths]
    trees = [ast.parse(text) for text in texts]
    return {
        "tokens": sum(map(tokens, texts)),
        "places": sum(len(places_beyond_limits(path)) for path in paths),
        "packed": sum(map(packed_assignments, trees)),
        "long_lines": sum(map(long_lines, texts)),
        "any": sum(map(signatures_with_any, trees)),
        "ternaries": sum(map(ternaries, trees)),
    }
