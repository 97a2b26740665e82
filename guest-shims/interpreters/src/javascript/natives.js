// The interpreter's own modules, for the boot scripts. This is a module, because only modules can import.
import * as std from 'glovebox:std';
import * as os from 'glovebox:os';
import * as bjson from 'glovebox:bjson';

globalThis.$glovebox = { __proto__: null, std, os, bjson };
