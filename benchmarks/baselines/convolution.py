"""Convolutions as torch and cuDNN have them; torch calls cuDNN on CUDA."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from tileops.bench.baselines import baseline

FUNCTIONS = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}


@baseline("torch", "Conv1dFwdOp", "Conv2dFwdOp", "Conv3dFwdOp")
@baseline("cudnn", "Conv1dFwdOp", "Conv2dFwdOp", "Conv3dFwdOp")
def convolution(op: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    function = FUNCTIONS[x.dim()]
    return function(x, weight, bias, op.stride, op.padding, op.dilation, op.groups)
