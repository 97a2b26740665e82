import sys

from proof.command import main

sys.exit(main())
