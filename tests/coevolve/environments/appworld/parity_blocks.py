"""Blocks of code whose observations are to be those of AppWorld's own shell."""

VALUES = """
x = 1
print(x)
print('a', 'b', sep='-', end='!')
print([1, 2, 3])
print((1, 'two', None))
print({'a': [1, {'b': True}]})
print([{'name': 'x' * 40, 'value': 1.5}, {'name': 'y' * 40, 'value': None}])
print({1: 2})
print({1, 2} == {2, 1})
print(None)
print()
print('')
print('   ')
print(' indented')
print('é ü 漢字 🙂')
print(['é'])
print('tab\\tnew\\nline')
print(1.0, 1e100, 10**30, -0.0)
print('no newline', end='')
'a value that is not printed'
x
x; y = 2; print(x + y)
print(f'{x!r:>5} {y:03d}')
print(*[1, 2, 3])
print([], sep='')
print(sorted({'b': 1, 'a': 2}.items()))
print(len('abc'), sum([1, 2]), max(3, 4))
print(type(x), type({}), int, len)
print(apis is None)
z = [n * n for n in range(5)]
print(z)
print({k: v for k, v in zip('abc', z)})
if x == 1: print('one')
for n in range(3): print(n)
print(json.dumps({'a': 1}, indent=2))
print(re.findall('[a-z]+', 'ab12cd'))
print(math.pi, math.sqrt(16))
print(Counter('abca').most_common())
d = defaultdict(list); d['a'].append(1); print(d)
print(list(itertools.chain([1], [2])))
print(deepcopy([1, [2]]))
print(reduce(lambda a, b: a + b, [1, 2, 3]))
print(calendar.monthrange(2024, 2))
print(datetime.datetime.now())
print(datetime.date.today())
print(repr(datetime.datetime.now()))
print(datetime.datetime.now().isoformat())
print(datetime.datetime.now() + datetime.timedelta(days=1))
import time; print(time.time())
from datetime import datetime as dt; print(dt.now().year, dt.now().strftime('%A'))
print(pendulum.now().year)
print(DateTime.now().format('YYYY-MM-DD'))
print(pendulum.datetime(2024, 3, 14).day_of_week)
random.seed(3); print(random.random(), random.randint(1, 100))
import os; print(os.path.join('a', 'b'))
import string; print(string.ascii_lowercase)
from collections import OrderedDict; print(OrderedDict(a=1))
import sys
import socket
import os, subprocess
import requests, numpy, pandas
from os import system
open('x')
exit()
quit()
eval('1')
import time; time.sleep(1)
from time import sleep as wait; wait(1)
import os; os.listdir('.')
import pathlib; p = pathlib.Path('x'); p.write_text('y')
input('?')
print(undefined_name)
1 / 0
[][3]
{}['missing']
'a' + 1
int('x')
None.attribute
raise ValueError
raise ValueError('told')
raise ValueError('two\\nlines')
raise ValueError('two\\n  indented lines')
raise Exception('an exception')
raise KeyError('key')
raise RuntimeError from ValueError('cause')
assert x == 2
assert x == 2, 'not two'
from collections import nothing
import nowhere
x = = 1
print('unclosed
def f(:
return 1
await x
yield 1
    indented = 1
if x:
for
lambda
x = 5 # a comment
# only a comment
""".strip().split("\n")

LONGER = (
    "",
    "   \n  ",
    "\n\nprint('after blank lines')\n\n",
    "def f(x):\n    return 1 / x",
    "print(f(2))",
    "f(0)",
    "print('lost before an error')\nf(0)",
    "def g(n):\n    if n == 0:\n        raise ValueError('deep')\n    g(n - 1)",
    "g(3)",
    "try:\n    g(1)\nexcept ValueError as error:\n    print(error)",
    "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('second') from e",
    "try:\n    1 / 0\nexcept ZeroDivisionError:\n    [][1]",
    "try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise ValueError('alone') from None",
    "class A:\n    def __repr__(self):\n        return 'an A'\nprint(A())",
    "class B:\n    def __str__(self):\n        raise ValueError('no text')\nprint(B())",
    "class Own(Exception):\n    pass\nraise Own('mine')",
    "def r():\n    r()\nr()",
    "x = [\n    1,\n    2\n]\nprint(x)",
    "print(\n    1 /\n    0\n)",
    "text = '''\nlong\n'''\nprint(text)",
    "total = 0\nfor n in range(10):\n    total += n\n    if n == 5:\n        1 / 0",
    "print(total)",
    "with open('x') as file:\n    print(file.read())",
    "import json\njson.loads('{')",
    "import re\nre.compile('(')",
    "print(json.loads('[1, 2'))",
    "sorted([1, 'a'])",
    "a, b = [1]",
    "global_name = 1\ndef use():\n    return global_name\nprint(use())",
    "[1 / n for n in (1, 0)]",
    "list(map(lambda n: 1 / n, (1, 0)))",
    "@staticmethod\ndef s():\n    return 's'\nprint(s())",
    "print([n for n in range(60)])",
    "print({'key' + str(n): n for n in range(30)})",
    "print('x' * 500)",
    "for n in range(200): print(n)",
    "def first():\n    return second()\ndef second():\n    return third_is_missing",
    "first()",
    "x: int = 3\nprint(x)",
    "print(x)  # comment\n# another",
    "match x:\n    case 3:\n        print('three')",
    "(y := 10)\nprint(y)",
    "import asyncio",
    "from . import something",
    "import os.path\nprint(os.path.basename('/a/b'))",
    "from os.path import join\nprint(join('a', 'b'))",
    "import collections.abc\nprint(collections.abc.Mapping)",
    "del x\nprint(x)",
    "raise SystemExit",
    "raise SystemExit('told')",
)

CALLS = (
    "print(apis.nothing)",
    "apis.nothing.show()",
    "apis.spotify.nothing()",
    "apis['spotify']['nothing']",
    "apis['nothing']",
    "print('spotify' in apis, 'nothing' in apis)",
    "try:\n    apis.spotify.nothing()\nexcept Exception as error:\n    print(error)",
    "try:\n    apis.spotify.login(username='x', password='y')\nexcept Exception as error:\n"
    "    print(type(error), error)",
    "apis.spotify.login('x', 'y')",
    "apis.spotify.login(username='x', password='y')",
    "print(apis.supervisor.show_active_task())",
    "print(apis.supervisor.show_profile())",
    "me = apis.supervisor.show_profile()\nprint(me['email'], me.get('x'))",
    "held = {a['account_name']: a['password'] for a in apis.supervisor.show_account_passwords()}\n"
    "print(sorted(held))",
    "said = apis.spotify.login(username=me['email'], password=held['spotify'])\n"
    "token = said['access_token']\nprint(sorted(said))",
    "print(apis.spotify.show_playlist_library(access_token=token))",
    "print(apis.spotify.show_playlist_library(access_token=token, page_limit=0))",
    "print(apis.spotify.show_playlist_library(access_token='wrong'))",
    "print(apis.spotify.show_song(song_id=1))",
    "print(apis.spotify.show_song(song_id=10**6))",
    "print(apis.spotify.show_song(song_id='one'))",
    "print(apis.spotify.show_song(song_id=None))",
    "print(apis.spotify.show_song(song_id=[1]))",
    "print(apis.spotify.show_song(song_id=1, unknown=2))",
    "print(apis.spotify.search_songs(query='river'))",
    "print(apis.spotify.search_songs(query='river', page_index=9))",
    "print(apis.spotify.show_song(song_id=1)['nothing'])",
    "print([apis.spotify.show_song(song_id=n)['title'] for n in range(1, 5)])",
    "print(apis.api_docs.show_app_descriptions())",
    "print(apis.api_docs.show_api_descriptions(app_name='spotify'))",
    "print(apis.api_docs.show_api_descriptions(app_name='nothing'))",
    "print(apis.api_docs.show_api_doc(app_name='spotify', api_name='login'))",
    "print(apis.api_docs.show_api_doc(app_name='spotify', api_name='nothing'))",
    "note = apis.simple_note.login(username=me['email'], password=held['simple_note'])\n"
    "print(apis.simple_note.create_note(title='a', content='b', "
    "access_token=note['access_token']))",
    "print(apis.simple_note.search_notes(access_token=note['access_token']))",
    "phone = apis.phone.login(username=me['phone_number'], password=held['phone'])\n"
    "print(apis.phone.show_alarms(access_token=phone['access_token']))",
    "print(apis.spotify.like_song(song_id=1, access_token=token))",
    "print(apis.spotify.like_song(song_id=1, access_token=token))",
    "print(apis.spotify.show_song(song_id=1, raise_on_failure=False))",
    "print(apis.spotify.show_song(song_id=10**6, raise_on_failure=False))",
    "def songs(page):\n    return apis.spotify.search_songs(page_index=page)\nsongs('x')",
    "for n in range(1001): apis.spotify.show_song(song_id=1)",
    "print(apis.supervisor.complete_task(answer='x', status='wrong'))",
    "print(apis.supervisor.complete_task(answer=3))",
    "print(apis.supervisor.show_active_task())",
)
"""They are run in this order, over the same variables and the same world."""
