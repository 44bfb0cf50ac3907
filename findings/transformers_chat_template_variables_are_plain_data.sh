#!/usr/bin/env bash
# transformers 5.24.0: what `apply_chat_template` is given for a template becomes plain data, so a function
# that is given in place of `strftime_now` arrives as a text, and the template fails. In 5.19.0 it is called.
#
# Who renders training data with a clock that stands still, so that prompts with "Today's date" do not
# change from day to day, passes such a function. The name is among the template's globals, and a given
# variable hides it in both versions. A macro of that name in front of the template works in both. Seen:
#
#     5.19.0: variable '1 Jan', macro '1 Jan'
#     5.24.0: variable TypeError: 'str' object is not callable, macro '1 Jan'
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
cat > clock.py <<'PYTHON'
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

words = Tokenizer(WordLevel({"a": 0}, unk_token="a"))
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words)
TEMPLATE = "{{ strftime_now('%d %b') }}"
MACRO = "{% macro strftime_now(form) %}1 Jan{% endmacro %}\n"


def rendered(template, **variables):
    asked = [{"role": "user", "content": "a"}]
    try:
        return repr(
            tokenizer.apply_chat_template(asked, chat_template=template, tokenize=False, **variables)
        )
    except TypeError as error:
        return f"TypeError: {error}"


given = rendered(TEMPLATE, strftime_now=lambda form: "1 Jan")
print(f"{transformers.__version__}: variable {given}, macro {rendered(MACRO + TEMPLATE)}")
PYTHON
for version in 5.19.0 5.24.0; do
  python3 -m venv "$version"
  "$version/bin/pip" install --quiet "transformers==$version" jinja2==3.1.6
  "$version/bin/python" clock.py 2>warnings.txt | tee -a found.txt
done
cat > expected.txt <<'TEXT'
5.19.0: variable '1 Jan', macro '1 Jan'
5.24.0: variable TypeError: 'str' object is not callable, macro '1 Jan'
TEXT
diff expected.txt found.txt
