import type { Admitted, StreamActivities } from '../contract/stream.js';
import type { Dependencies } from '../dependencies.js';
import { birthNow } from './watch-served.js';
import { streamFacts } from './stream-facts.js';

type Needs = Pick<Dependencies, 'attempt' | 'store'>;

/** The record is read here, because what the workflow has seen of it may be older. */
export const createAdmitGroups =
  (dependencies: Dependencies): StreamActivities['admitGroups'] =>
  ({ stream_id, first, count, service = null, ...given }) =>
    dependencies.attempt(async () => {
      const { admitted } = streamFacts(stream_id, dependencies.store.facts);
      const born = await birthNow(service, { given: given.born, dependencies });
      const groups: Admitted[] = [];
      // In order, so that there are no gaps.
      for (let group = first; group < first + count; group++)
        groups.push(await admitted.put(group, { group, born }));
      return groups;
    });

export const createEndGroup =
  ({ attempt, store }: Needs): StreamActivities['endGroup'] =>
  ({ stream_id, ...end }) =>
    attempt(async () => {
      const { group } = end;
      // Members of an earlier run count, too.
      let { members } = end;
      while ((await store.journalSize({ batch_id: stream_id, row: group, repeat: members })) > 0)
        members += 1;
      return await streamFacts(stream_id, store.facts).ended.put(group, { ...end, members });
    });

export const createDropGroups =
  ({ attempt, store }: Needs): StreamActivities['dropGroups'] =>
  ({ stream_id, groups }) =>
    attempt(async () => {
      const { dropped } = streamFacts(stream_id, store.facts);
      for (const group of groups) await dropped.put(group, { group });
    });
