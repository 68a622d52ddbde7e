"""Triton IR in MLIR's generic form, parsed into operations, regions and blocks.

The generic form spells every operation alike, with every defaulted attribute and every type, so one parser reads what Triton 3.6 to 3.9
print: `%r = "dialect.op"(%a, %b) <{properties}> ({regions}) {attributes} : (types) -> types loc(...)`. Attribute values stay text: each
operation decodes what it knows, and an attribute that nobody decodes is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from difftest.errors import Unsupported


@dataclass(frozen=True)
class Type:
    """A scalar, pointer or tensor type: `shape` is () for scalars; `element` such as `f32`, or `ptr` with its `pointee`."""

    shape: tuple[int, ...]
    element: str
    pointee: str = ""

    @property
    def is_pointer(self) -> bool:
        """Whether the elements are pointers."""
        return self.element == "ptr"


@dataclass
class Operation:
    """One operation; `location` is the text inside its `loc(...)`."""

    name: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    attributes: dict[str, str]
    operand_types: tuple[Type, ...] = ()
    result_types: tuple[Type, ...] = ()
    successors: tuple[tuple[str, tuple[str, ...]], ...] = ()
    regions: list[list[Block]] = field(default_factory=list)
    location: str = ""


@dataclass
class Block:
    """A list of operations with arguments; `label` such as `^bb0`."""

    label: str
    arguments: tuple[str, ...] = ()
    argument_types: tuple[Type, ...] = ()
    operations: list[Operation] = field(default_factory=list)


@dataclass
class Module:
    """The functions of a module by symbol, and its location aliases."""

    functions: dict[str, Operation]
    locations: dict[str, str]


_HEAD = re.compile(r'(?:(%[\w.$-]+)(?::(\d+))? = )?"([\w.]+)"\(([^)]*)\)(?:\[([^\]]*)\])?')
_ARGUMENT = re.compile(r"(%[\w.$-]+): ")
_LOCATION_ALIAS = re.compile(r"(#loc\d*) = loc\((.*)\)$")
_CLOSERS = {"(": ")", "[": "]", "{": "}", "<": ">"}


def parse_module(text: str) -> Module:
    """Return the module that `text`, in generic form, spells."""
    return _Parser(text).module()


def split_top(text: str, separator: str = ",") -> list[str]:
    """Split at separators that stand outside every bracket and string."""
    if not text.strip():
        return []
    parts, depth, start, quoted, index = [], 0, 0, False, 0
    while index < len(text):
        character = text[index]
        if quoted:
            if character == "\\":
                index += 1
            elif character == '"':
                quoted = False
        elif character == '"':
            quoted = True
        elif character in "([{<":
            depth += 1
        elif character in ")]}" or (character == ">" and text[index - 1] != "-"):
            depth -= 1
        elif character == separator and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
        index += 1
    parts.append(text[start:].strip())
    return parts


def parse_type(text: str) -> Type:
    """Return the type that `text` spells.

    Raises:
        Unsupported: for a type other than scalars, pointers and tensors of them.

    """
    cached = _types.get(text)
    if cached is None:
        cached = _types[text] = _parse_type(text.strip())
    return cached


_types: dict[str, Type] = {}
_SCALARS = {"i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "f8E4M3FN", "f8E5M2"}


def _parse_type(text: str) -> Type:
    if text in _SCALARS:
        return Type((), text)
    if text.startswith("!tt.ptr<"):
        return Type((), "ptr", split_top(text[8:-1])[0])
    if text.startswith("tensor<"):
        *dimensions, element = re.fullmatch(r"tensor<((?:\d+x)*)(.*)>", text).groups()  # type: ignore[union-attr]
        inner = _parse_type(element)
        return Type(tuple(int(size) for size in dimensions[0].split("x") if size), inner.element, inner.pointee)
    raise Unsupported(f"the simulator does not know the type {text!r}; run this kernel on a GPU (--difftest-engine=gpu)")


class _Parser:
    def __init__(self, text: str) -> None:
        self._lines = [line.strip() for line in text.splitlines() if line.strip()]
        self._at = 0

    def module(self) -> Module:
        locations, functions = {}, {}
        for line in self._lines:
            if line.startswith("#loc") and (match := _LOCATION_ALIAS.match(line)):
                locations[match[1]] = match[2]
        while not self._lines[self._at].startswith('"builtin.module"'):
            self._at += 1
        module = self._operation()
        for block in module.regions[0]:
            for operation in block.operations:
                functions[operation.attributes["sym_name"].strip('"')] = operation
        return Module(functions, locations)

    def _operation(self) -> Operation:
        line = self._lines[self._at]
        match = _HEAD.match(line)
        if match is None:
            raise Unsupported(f"the simulator cannot read this line of Triton IR: {line[:160]!r}")
        result, count, name, operands, successors = match.groups()
        results = () if result is None else (result,) if count is None else tuple(f"{result}#{index}" for index in range(int(count)))
        operation = Operation(name, tuple(item.strip() for item in operands.split(",") if item.strip()), results, {})
        operation.successors = tuple((label.strip(), ()) for label in (successors or "").split(",") if label.strip())
        rest = line[match.end() :].lstrip()
        rest = _take_dictionary(operation, rest, "<{", "}>")
        if rest == "({":
            rest = self._regions(operation)
        rest = _take_dictionary(operation, rest, "{", "}")
        _take_types(operation, rest)
        self._at += 1
        return operation

    def _regions(self, operation: Operation) -> str:
        """Read regions up to the line that closes them, and return what follows the closer on that line."""
        self._at += 1
        blocks: list[Block] = []
        operation.regions.append(blocks)
        while True:
            line = self._lines[self._at]
            if line.startswith("})"):
                return line[2:].lstrip()
            if line.startswith("}, {"):
                blocks = []
                operation.regions.append(blocks)
                self._at += 1
            elif line.startswith("^"):
                blocks.append(_block(line))
                self._at += 1
            else:
                if not blocks:
                    blocks.append(Block("^entry"))
                blocks[-1].operations.append(self._operation())


def _block(line: str) -> Block:
    label, _, rest = line.partition("(")
    block = Block(label.rstrip(":").split(":")[0].strip())
    if rest:
        names, types = [], []
        for item in split_top(rest[: rest.rindex(")")]):
            match = _ARGUMENT.match(item)
            names.append(match[1])  # type: ignore[index]
            types.append(parse_type(item[match.end() :].split(" loc(")[0]))  # type: ignore[union-attr]
        block.arguments, block.argument_types = tuple(names), tuple(types)
    return block


def _take_dictionary(operation: Operation, rest: str, opener: str, closer: str) -> str:
    """Move a leading `opener ... closer` into the operation's attributes and return what follows it."""
    if not rest.startswith(opener) or (opener == "{" and rest.startswith("{%")):
        return rest
    end = _matching(rest, closer, len(opener))
    for item in split_top(rest[len(opener) : end]):
        key, equals, value = item.partition(" = ")
        operation.attributes[key.strip()] = value.strip() if equals else "unit"
    return rest[end + len(closer) :].lstrip()


def _matching(text: str, closer: str, start: int) -> int:
    depth, quoted, index = 0, False, start
    while index < len(text):
        character = text[index]
        if quoted:
            index += character == "\\"
            quoted = character != '"' if character != "\\" else True
        elif character == '"':
            quoted = True
        elif depth == 0 and text.startswith(closer, index):
            return index
        elif character in "([{<":
            depth += 1
        elif character in ")]}" or (character == ">" and text[index - 1] != "-"):
            depth -= 1
        index += 1
    raise Unsupported(f"the simulator cannot find the end of {text[:80]!r}")


def _take_types(operation: Operation, rest: str) -> None:
    if not rest.startswith(": "):
        raise Unsupported(f"the simulator cannot read the types of {operation.name}: {rest[:120]!r}")
    signature, _, location = rest[2:].rpartition(" loc(")
    operation.location = location.removesuffix(")")
    operands, _, results = signature.partition(" -> ")
    operation.operand_types = tuple(parse_type(item) for item in split_top(operands.strip()[1:-1]))
    inner = results.strip()
    inner = inner[1:-1] if inner.startswith("(") else inner
    operation.result_types = tuple(parse_type(item) for item in split_top(inner))
