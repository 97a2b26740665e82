// Adds the modules as globals, like `qjs --std`, and hides the shared state of the boot scripts.
import * as std from 'std';
import * as os from 'qjs:os';
import * as bjson from 'bjson';

$glovebox.global('std', std);
$glovebox.global('os', os);
$glovebox.global('bjson', bjson);
delete globalThis.$glovebox;
