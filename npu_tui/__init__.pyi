"""What ``npu_tui`` shows to type checkers; at run time ``npu_tui.api`` is imported when it is needed."""

from npu_tui.api import Comparison as Comparison
from npu_tui.api import Error as Error
from npu_tui.api import Job as Job
from npu_tui.api import Profile as Profile
from npu_tui.api import Report as Report
from npu_tui.api import Timeline as Timeline
from npu_tui.api import open as open
from npu_tui.api import open_job as open_job

__version__: str
