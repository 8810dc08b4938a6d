"""Help all other packages with files, locks, signals, provenance and checks of arguments."""

from . import checks
from ._allocator import keep_freed_memory, physical_memory
from ._checkpoints import FORMAT as CHECKPOINT_FORMAT
from ._checkpoints import Checkpoint, checkpoint_folders, find_checkpoint, reason_of, write_checkpoint
from ._compiled import keep_compiled
from ._files import cache_folder, write_whole
from ._interruption import Interruption
from ._json import json_ready, json_text
from ._lazy import lazy_names
from ._lock import LOCK, BusyError, only_writer
from ._processes import any_process, check_same_run, gather_texts, is_first_process, process_count
from ._provenance import array_checksum, device, versions
from ._words import counted, size_in_words, without_addresses
