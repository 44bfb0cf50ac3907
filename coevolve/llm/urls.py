"""The address of a server, as an option of a command."""

import click
import msgspec

from coevolve.base.foreign import shown
from protocols.synthesizers import Url


def url_of(context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    """Return the server's address, if an option gives one. Raises BadParameter for other words."""
    del context
    try:
        return msgspec.convert(text, Url) if text else text
    except msgspec.ValidationError as error:
        raise click.BadParameter(
            "needs a URL such as http://127.0.0.1:8000/v1, without a user, a password or a query, "
            f"found {shown(text)}; name the variable that holds a key",
            param=parameter,
        ) from error
