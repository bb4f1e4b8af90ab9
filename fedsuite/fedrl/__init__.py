"""FedRL: parties that see different halves of one world learn one policy by exchanging noised Q-values.

Zhuo et al., Federated Deep Reinforcement Learning (2019).
"""
