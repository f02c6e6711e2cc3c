"""What each request of a batch of an inference service computes there: its prompt or a token, and how many tokens."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.limits import NEARLY_ALL
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.service import UNKNOWN, Kind, Pass, Service

_FEW = 16  # more tokens than one request decodes in a step, drafts included


def is_prompt(service: Service) -> Bools:
    """Whether each member of a batch computes (part of) its prompt: by its type, or turn and tokens, or the batch.

    Where a batch of both kinds says nothing of its members, those do whose first batch of the pass it is, or one of the
    first ones where prompts are computed in several.
    """
    members, kind = service.members, service.batches.kind[service.members.batch]
    guess = (members.iter == 0) | (members.tokens > _FEW) | ((members.iter == UNKNOWN) & (kind == Kind.prefill))
    if (silent := _is_silent(service) & (kind == Kind.mixed)).any():
        turn = _batches_before(service)
        guess |= silent & (turn < chunks_of(service, turn)[members.rid])
    prompt: Bools = np.where(members.phase == UNKNOWN, guess & (kind != Kind.decode), members.phase == 0)
    return prompt


def _is_silent(service: Service) -> Bools:
    """Which members have neither a phase nor tokens in the file; (members,)."""
    members = service.members
    silent: Bools = (members.phase == UNKNOWN) & (members.tokens == UNKNOWN) & (members.rid >= 0)
    return silent


def _batches_before(service: Service) -> I64:
    """In how many batches before the request of each member was: as written, else of the same pass and process."""
    members, batches = service.members, service.batches
    place = batches.process.astype(np.int64) * len(Pass) + batches.passes
    of = members.rid + place[members.batch] * (len(service.rids) + 1)
    order = np.argsort(of, kind="stable")
    begin = np.append(True, np.diff(of[order]) != 0)[: len(of)]
    at, turn = np.arange(len(of)), np.empty(len(of), np.int64)
    turn[order] = at - np.maximum.accumulate(np.where(begin, at, 0))
    return np.where(members.iter == UNKNOWN, turn, members.iter)


def _token_counts(service: Service) -> tuple[I64, I64]:
    """The tokens of the prompt and of the answer of each request (rids,), 0 where they are unknown."""
    requests, found = service.requests, np.zeros((2, len(service.rids)), np.int64)
    known = requests.rid >= 0
    for row, column in zip(found, (requests.prompt_tokens, requests.output_tokens), strict=True):
        row[requests.rid[known]] = np.maximum(column[known], 0)
    return found[0], found[1]


def chunks_of(service: Service, turn: I64) -> I64:
    """The number of passes that compute each prompt (rids,), counted by passes without an output token; 1 if unknown.

    Other passes that give no token, such as one more after the last token, have nothing to do with the prompt's length.
    """
    members, (prompt, answer) = service.members, _token_counts(service)
    turns = np.zeros(len(service.rids), np.int64)
    known = members.rid >= 0
    np.maximum.at(turns, members.rid[known], turn[known] + 1)
    chunks = np.maximum(turns - answer + 1, 1)
    told = (prompt > 0) & (answer > 0) & (turns > 0)
    if len(np.unique(chunks[told])) < 2 or np.ptp(prompt[told]) == 0:
        return np.ones_like(chunks)
    related = float(np.corrcoef(prompt[told], chunks[told])[0, 1]) >= NEARLY_ALL
    return np.where(told & related, chunks, 1)


def tokens_of(service: Service) -> I64:
    """The tokens of each member of a batch; without any that are written a prompt has all of its, a decode one."""
    members = service.members
    unknown = members.tokens == UNKNOWN
    if not unknown.any():
        return members.tokens
    prompt = is_prompt(service) & (members.rid >= 0)
    tokens: I64 = np.maximum(_token_counts(service)[0], 1)[members.rid]
    tokens[~prompt] = 1
    np.copyto(tokens, members.tokens, where=~unknown)
    if (unknown & _is_silent(service) & prompt).any():
        _cut_to_room(service, tokens, prompt)
    return tokens


def _cut_to_room(service: Service, tokens: I64, prompt: Bools) -> None:
    """Cut the chunks of prompts to the part that a step has room for; ``tokens`` has the whole ones.

    The budget is the least one with which all prompts are computed in as many steps as they were.
    """
    members, whole, turn = service.members, _token_counts(service)[0], _batches_before(service)
    chunks = chunks_of(service, turn)
    if (chunks == 1).all():
        return
    known = members.rid >= 0
    executed = service.batches.passes[members.batch] == Pass.execute
    rows = np.flatnonzero(prompt & executed & known)
    _, first = np.unique(members.rid[rows] * (int(chunks.max()) + 1) + turn[rows], return_index=True)
    rows = rows[np.sort(first)]  # workers repeat what the engine does
    rows = rows[(chunks > 1)[members.rid[rows]]]
    decodes = np.bincount(members.batch[~prompt & known], minlength=len(service.batches))
    beside = np.bincount(members.rid[rows], decodes[members.batch[rows]], len(service.rids))
    budget = int(np.ceil((whole + beside) / chunks).max())
    part, left, used = {}, whole.tolist(), dict[int, int]()
    order = np.lexsort((-turn[rows], service.batches.start[members.batch[rows]]))
    for row in rows[order].tolist():  # who began earlier comes first in a step
        batch, rid, at = int(members.batch[row]), int(members.rid[row]), int(turn[row])
        rest = budget - int(decodes[batch]) - used.get(batch, 0)
        count = max(left[rid] if at + 1 >= chunks[rid] else min(left[rid], rest), 1)
        left[rid] -= count
        used[batch] = used.get(batch, 0) + count
        part[rid, at] = count
    for row in np.flatnonzero(prompt & known & (chunks > 1)[members.rid]).tolist():
        key = int(members.rid[row]), int(turn[row])
        tokens[row] = part.get(key, tokens[row])
