"""The operations on a space that this extension adds."""

from treering.extensions.sharing.proof import PROVE
from treering.extensions.sharing.transfer import EXPORT, IMPORT

OPERATIONS = (EXPORT, IMPORT, PROVE)
