"""The reference trainers, gradient flow and gradient descent, which judge the predictions.

Read `gradient_flow` first.
"""
