import no_such_module
from nowhere import nothing
