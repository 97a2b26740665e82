// Makes the modules globals too, as `qjs --std` does, and hides what the boot scripts shared.
import * as std from 'std';
import * as os from 'qjs:os';
import * as bjson from 'bjson';

$glovebox.global('std', std);
$glovebox.global('os', os);
$glovebox.global('bjson', bjson);
delete globalThis.$glovebox;
