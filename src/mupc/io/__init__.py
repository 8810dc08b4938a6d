"""Files, locks, signals, provenance and checks of arguments, for all other packages."""

from . import checks as checks
from ._files import cache_folder as cache_folder
from ._files import write_whole as write_whole
from ._interruption import Interruption as Interruption
from ._json import json_ready as json_ready
from ._json import json_text as json_text
from ._lock import LOCK as LOCK
from ._lock import BusyError as BusyError
from ._lock import only_writer as only_writer
from ._provenance import device as device
from ._provenance import versions as versions
from ._words import counted as counted
