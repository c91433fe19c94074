"""The proxy of the campaigns, for tests of one fault each."""

from chaos.proxy import CutOnce, Proxy, Rule, let_pass, proxied

__all__ = ["CutOnce", "Proxy", "Rule", "let_pass", "proxied"]
