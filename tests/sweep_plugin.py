"""A plugin file for tests of sweeps: its phases fail, pause or die on demand."""

PLUGIN = """
import os, time
import numpy as np
import agf

class Toy(agf.Problem):
    '''Two neurons that activate one after the other.'''
    name = "toy"
    degree, n_params = 2, 2

    def __init__(self, width=2, fail_seed=-1, pause=0.0, die_once=None, die=False, stop_seed=-1):
        self.stop_seed = stop_seed
        self.width, self.fail_seed, self.pause, self.die_once, self.die = width, fail_seed, pause, die_once, die

    def initial(self, alpha, rng, kind):
        theta = rng.standard_normal((self.width, 2))
        return theta

    def loss_grad(self, theta, neurons):
        return 1.0, np.zeros_like(theta)

    def residual(self, theta, neurons):
        return None

    def utility(self, theta, neurons, residual):
        return np.zeros(len(theta)), np.zeros_like(theta)

    def phases(self, init, settings):
        return Phases(self, init)

class Phases:
    def __init__(self, problem, init):
        self.problem, self.init = problem, init
        self.clock = agf.Clock.from_norms(problem.degree, init.log_norms)
        self.seed = init.seed

    def start(self):
        init = self.init
        if self.problem.die_once and not os.path.exists(self.problem.die_once):
            open(self.problem.die_once, "w").close()
            os.kill(os.getpid(), 9)
        if self.problem.die:
            os.kill(os.getpid(), 9)
        time.sleep(self.problem.pause)
        if init.seed == self.problem.fail_seed:
            raise ZeroDivisionError("on purpose")
        return agf.State(0.0, np.zeros(init.width, bool), init.directions, init.log_norms, 2.0)

    def dormant(self, state):
        if self.seed == self.problem.stop_seed:
            raise KeyboardInterrupt
        left = np.flatnonzero(~state.active)
        if left.size == 0:
            return state, agf.Status.ALL_ACTIVE
        when = state.time - state.log_norms[left[0]]
        return state, agf.Activation(when, when, left[:1], np.ones(1))

    def active(self, state, activation):
        active = state.active.copy()
        active[activation.neurons] = True
        level = 2.0 - active.sum()
        after = agf.State(activation.time, active, state.directions, state.log_norms, level)
        return after, agf.Settled(level, np.zeros(0, int), 0.0, 0.0, "closed form")
"""
