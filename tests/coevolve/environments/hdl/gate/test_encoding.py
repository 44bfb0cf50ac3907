"""RTL in any encoding of bytes is read, as long as the bytes are in comments or strings."""

from pathlib import Path

import pytest

from coevolve.environments.hdl.designs.folders import unit_from_files
from coevolve.environments.hdl.gate.encoding import bench_text, rtl_text
from protocols.errors import ConfigError

WORDS = {
    "gbk": "时钟上升沿复位",
    "shift_jis": "表示 ソース 予約",
    "latin-1": "Zähler für den Takt",
    "cp1252": "Größe “Takt”",
    "big5": "功能 許可 蓋",
    "euc_kr": "시계",
    "gb18030": "时钟€",
    "cp1251": "Счётчик",
}


def module(comment: bytes, inside: bytes = b"") -> bytes:
    line, block = b"// " + comment, b"/* " + comment + b"\n" + comment + b" */"
    return b"\n".join(
        (line, b"module m (input logic a); " + block, inside, line, b"endmodule", line)
    )


@pytest.mark.parametrize("encoding", WORDS)
def test_comments_may_be_in_any_encoding(encoding: str, tmp_path: Path):
    data = module(WORDS[encoding].encode(encoding))
    with pytest.raises(UnicodeDecodeError):
        data.decode()
    file = tmp_path / "m.v"
    file.write_bytes(data)
    (source,) = unit_from_files([file], "m", "a").files
    assert len(source.text.splitlines()) == len(data.split(b"\n"))
    assert "module m (input logic a); /*" in source.text
    assert source.text.splitlines()[-2] == "endmodule"


def test_the_second_byte_of_a_character_does_not_continue_a_comment():
    text = "表".encode("shift_jis")
    assert text.endswith(b"\\")
    assert rtl_text(b"// " + text + b"\nmodule m; endmodule\n") == (
        "// \ufffd\ufffd\nmodule m; endmodule\n"
    )
    assert rtl_text(b"// \\ " + text + b"\n") == "// \\ \ufffd\ufffd\n"


def test_a_string_keeps_its_bytes():
    text = rtl_text(b'module m; initial $display("a\xd6\xd0b", "ok"); endmodule // \xd6\n')
    assert text == 'module m; initial $display("a\\xd6\\xd0b", "ok"); endmodule // \ufffd\n'


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"module m;\nlogic gr\xf6sse;\nendmodule\n", "line 2, column 9: .* 0xf6"),
        (b"// \xe9\nmodule m\xe9; endmodule\n", "line 2, column 9: .* 0xe9"),
        (b"module m; endmodule \xa0\n", "line 1, column 21: .* 0xa0"),
        (b"`define A \xc4\nmodule m; endmodule\n", "line 1, column 11: .* 0xc4"),
        (b"\xffmodule m; endmodule\n", "line 1, column 1: .* 0xff"),
    ],
)
def test_a_byte_elsewhere_is_refused_with_its_place(data: bytes, place: str, tmp_path: Path):
    with pytest.raises(ValueError, match=place):
        rtl_text(data)
    file = tmp_path / "m.v"
    file.write_bytes(data)
    with pytest.raises(ConfigError, match=rf"m\.v cannot be read: {place}; save it as UTF-8"):
        unit_from_files([file], "m")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_utf_16_is_refused_with_a_sentence(encoding: str):
    data = "module m; endmodule\n".encode(encoding)
    for read in (rtl_text, bench_text):
        with pytest.raises(ValueError, match="needs to be UTF-8, found UTF-16 or no text"):
            read(data)


def test_a_byte_order_mark_is_left_out():
    data = b"\xef\xbb\xbfmodule m; endmodule\n"
    assert rtl_text(data) == bench_text(data) == "module m; endmodule\n"
    assert rtl_text(data + b"// \xe4\n") == "module m; endmodule\n// \ufffd\n"


def test_utf_8_stays_as_it_is():
    text = "// Zähler 时钟 \ufffd\nmodule m; endmodule\n"
    assert rtl_text(text.encode()) == bench_text(text.encode()) == text
    assert bench_text(b"// \xe4\n") == "// \ufffd\n"
