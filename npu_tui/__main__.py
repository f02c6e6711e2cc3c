"""``python -m npu_tui``."""

from npu_tui.cli.main import main

raise SystemExit(main())
