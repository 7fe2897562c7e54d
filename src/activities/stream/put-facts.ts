import type { StoredStep } from '../../model/stream/facts.js';
import type { StepFact, Admitted } from '../contract/stream.js';
import type { Body } from '../dependencies.js';
import { requestOf, streamOf } from '../request-of.js';
import { decidedIn, forgetDecided, deliveredIn, streamFacts } from './stream-facts.js';
import { birthNow } from './watch-served.js';

/** The record is read here, because what the workflow has seen of it may be older. */
export const admitGroups: Body<'admitGroups'> = async ([input], dependencies) => {
  const { stream_id, first, count, service = null, born: given } = input;
  const { admitted } = streamFacts(stream_id, dependencies.store.facts);
  const born = await birthNow(service, { given, dependencies });
  const groups: Admitted[] = [];
  // In order, so that there are no gaps.
  for (let group = first; group < first + count; group++)
    groups.push(await admitted.put(group, { group, born }));
  return groups;
};

export const endGroup: Body<'endGroup'> = async ([{ stream_id, ...end }], { store }) => {
  const { group } = end;
  // Members of an earlier run count, too.
  let { members } = end;
  while ((await store.journalSize({ batch_id: stream_id, row: group, repeat: members })) > 0)
    members += 1;
  return await streamFacts(stream_id, store.facts).ended.put(group, { ...end, members });
};

export const dropGroups: Body<'dropGroups'> = async ([{ stream_id, groups }], { store }) => {
  const { dropped } = streamFacts(stream_id, store.facts);
  for (const group of groups) await dropped.put(group, { group });
};

export const putStep: Body<'putStep'> = async ([{ stream_id, fact }], { store }) => {
  const facts = streamFacts(stream_id, store.facts);
  const delivered = await deliveredIn(fact, facts);
  const put: Partial<StoredStep> & StepFact = await facts.steps.put(fact.step, {
    ...fact,
    delivered,
  });
  // Only the store needs it: the workflow's history has one for each step.
  delete put.delivered;
  return put;
};

/**
 * The fact that they are forgotten is put before anything is deleted, so a half-deleted step is not written again. The
 * fact of a step goes last, so an attempt that died leaves to the next one what it has not deleted.
 */
export const forgetSteps: Body<'forgetSteps'> = async ([input], { store, attempt }) => {
  const { stream_id, through } = input;
  const facts = streamFacts(stream_id, store.facts);
  const request = await requestOf(stream_id, store);
  const { max_replacements } = streamOf(request, stream_id);
  const repeats = request.num_repeats + max_replacements;
  let last = (await facts.forgotten.last(-1)) ?? { n: -1, value: { through: -1 } };
  while (last.value.through < through) {
    const n = last.n + 1;
    last = { n, value: await facts.forgotten.put(n, { through }) };
  }
  const last_step = last.value.through;
  for (const step of await facts.steps.upTo(last_step)) {
    attempt.signal.throwIfAborted();
    await store.stepOutputs({ stream_id, step }).forget();
    const fact = await facts.steps.find(step);
    if (fact === null) continue;
    await store.forgetJournals({ batch_id: stream_id, rows: decidedIn(fact), repeats });
    await forgetDecided(fact, facts);
    // A stream that is started again finds its place by the last one.
    if (step < last_step) await facts.steps.forget([step]);
  }
  await facts.forgotten.forget(await facts.forgotten.upTo(last.n - 1));
};
