"""Facts about pyslang: its tokens, its places and its elaborated parameters."""

from typing import Any, cast

from pyslang import BumpAllocator, Diagnostics, SourceManager, SVInt
from pyslang.ast import Compilation, InstanceSymbol, ParameterSymbol
from pyslang.parsing import Lexer, Token, TokenKind, TriviaKind
from pyslang.syntax import (
    DataDeclarationSyntax,
    DeclaratorSyntax,
    ModuleDeclarationSyntax,
    ProceduralBlockSyntax,
    SyntaxKind,
    SyntaxTree,
)

TEXT = """module d #(parameter W = 8, parameter [7:0] V = 8'hFF) (input logic clk);
  logic [3:0] p = 4'hF; initial begin #1 p = 2; end
  always @(posedge clk) begin automatic int t = 1; end
endmodule
module tb; d #(.W(4'd8)) u (.clk()); d v (.clk()); endmodule
"""


def tree() -> tuple[SyntaxTree, SourceManager]:
    sources = SourceManager()
    return SyntaxTree.fromText(TEXT, sources), sources


def parameters(name: str) -> dict[str, ParameterSymbol]:
    parsed, _ = tree()
    compilation = Compilation()
    compilation.addSyntaxTree(parsed)
    KEPT.append(compilation)
    (top,) = cast("list[InstanceSymbol]", compilation.getRoot().topInstances)
    body = cast("InstanceSymbol", top.body.lookupName(name)).body
    found = [each for each in cast("Any", body.parameters) if isinstance(each, ParameterSymbol)]
    return {each.name: each for each in found}


KEPT: list[Compilation] = []
"""Compilations outlive their symbols."""


def tokens(text: str) -> list[Token]:
    sources = SourceManager()
    lexer = Lexer(sources.assignText("t", text), BumpAllocator(), Diagnostics(), sources)
    found = [lexer.lex()]
    while found[-1].kind != TokenKind.EndOfFile:
        found.append(lexer.lex())
    KEPT_LEXERS.append((lexer, sources))
    return found


KEPT_LEXERS: list[object] = []


def test_only_a_parameter_that_is_given_is_overridden():
    """A parameter says whether its instance gave a value.

    Needed by: coevolve/environments/hdl/gate/parameters.py
    """
    assert {name: each.isOverridden for name, each in parameters("u").items()} == {
        "W": True,
        "V": False,
    }
    assert not any(each.isOverridden for each in parameters("v").values())


def test_equal_numbers_of_other_widths_are_equal_as_integers():
    """The value of an integral parameter is an SVInt that int() converts.

    Needed by: coevolve/environments/hdl/gate/parameters.py
    """
    given, own = (cast("Any", parameters(name)["W"].value).value for name in "uv")
    assert isinstance(given, SVInt)
    assert str(given) != str(own)
    assert int(given) == int(own) == 8


def test_offsets_count_bytes():
    """A token's offset counts the bytes before it, in UTF-8.

    Needed by: coevolve/environments/hdl/gate/tokens.py,
      coevolve/environments/hdl/gate/encoding.py
    """
    assert tokens("/* \u00e9 */ x")[0].location.offset == len("/* \u00e9 */ ".encode())


def test_comments_are_trivia_before_the_next_token_or_the_end():
    """Every comment is trivia of the token after it, also at the end of the file.

    Needed by: coevolve/environments/hdl/gate/tokens.py
    """
    word, end = tokens("// a\nx // b")
    kinds = [[each.kind for each in token.trivia] for token in (word, end)]
    assert kinds == [
        [TriviaKind.LineComment, TriviaKind.EndOfLine],
        [TriviaKind.Whitespace, TriviaKind.LineComment],
    ]


def test_a_backslash_does_not_continue_a_line_comment():
    """A line comment ends with its line, even after a backslash.

    Needed by: coevolve/environments/hdl/gate/encoding.py
    """
    word, _ = tokens("// a \\\nx")
    assert word.kind == TokenKind.Identifier


def test_a_string_s_raw_text_has_its_quotes_and_escapes():
    """The raw text of a string is what the file has, escapes included.

    Needed by: coevolve/environments/hdl/gate/encoding.py
    """
    assert tokens('"a\\x41"')[0].rawText == '"a\\x41"'


def test_a_declarator_s_parents_are_its_declaration_and_its_module():
    """The parent of a declarator is the declaration, whose parent is the module.

    Needed by: coevolve/environments/hdl/coverage/initial.py
    """
    found: list[DeclaratorSyntax] = []

    def visit(node: object) -> None:
        if isinstance(node, DeclaratorSyntax) and isinstance(node.parent, DataDeclarationSyntax):
            found.append(node)

    tree()[0].root.visit(visit)
    parents = {node.name.valueText: type(node.parent.parent) for node in found}
    assert parents["p"] is ModuleDeclarationSyntax
    assert parents["t"] is not ModuleDeclarationSyntax


def test_a_range_ends_behind_its_last_character():
    """The end of a node's range is the offset behind its last token.

    Needed by: coevolve/environments/hdl/coverage/initial.py
    """
    found: list[str] = []

    def visit(node: object) -> None:
        if isinstance(node, ProceduralBlockSyntax) and node.kind == SyntaxKind.InitialBlock:
            span = node.sourceRange
            found.append(TEXT[span.start.offset : span.end.offset])

    tree()[0].root.visit(visit)
    assert found == ["initial begin #1 p = 2; end"]


def test_a_visitor_reaches_tokens():
    """Visiting a syntax node reaches its tokens, delays among them.

    Needed by: coevolve/environments/hdl/coverage/initial.py
    """
    kinds: set[TokenKind] = set()

    def visit(node: object) -> None:
        if isinstance(node, Token):
            kinds.add(node.kind)

    tree()[0].root.visit(visit)
    assert {TokenKind.Hash, TokenKind.At} <= kinds


def test_texts_in_memory_are_included_by_their_names():
    """With proximate paths off, an ``include`` finds a text that was given under the same name.

    Needed by: coevolve/environments/hdl/designs/rtl.py
    """
    sources = SourceManager()
    sources.setDisableProximatePaths(True)
    sources.assignText("h.svh", "`define W 8\n")
    buffer = sources.assignText("a.sv", '`include "h.svh"\nmodule a; wire [`W:0] w; endmodule\n')
    tree = SyntaxTree.fromBuffers([buffer], sources)
    assert not list(tree.diagnostics)
    names = {sources.getRawFileName(each) for each in sources.getAllBuffers()}
    assert names - {""} == {"h.svh", "a.sv"}


def test_an_included_name_of_slashes_reads_no_file():
    """A name of slashes is that of a folder, so that an ``include`` of it reads nothing.

    Needed by: coevolve/environments/hdl/designs/rtl.py
    """
    sources = SourceManager()
    sources.setDisableProximatePaths(True)
    buffer = sources.assignText("a.sv", '`ifdef X\n`include "///"\n`endif\n`include "////"\n')
    tree = SyntaxTree.fromBuffers([buffer], sources)
    assert [each.location.offset for each in tree.diagnostics] == [40]
    assert {sources.getRawFileName(each) for each in sources.getAllBuffers()} == {"a.sv"}
