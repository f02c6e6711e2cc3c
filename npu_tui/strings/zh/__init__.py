"""The texts in Chinese, in the words of Ascend engineers."""
