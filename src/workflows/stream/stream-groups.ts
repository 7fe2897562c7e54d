import type { ChildWorkflowHandle, ExternalWorkflowHandle } from '@temporalio/workflow';
import {
  CancellationScope,
  ParentClosePolicy,
  WorkflowIdReusePolicy,
  condition,
  getExternalWorkflowHandle,
  setHandler,
  sleep,
  startChild,
} from '@temporalio/workflow';
import type { GroupNews, StreamPlan } from '../../activities/contract/stream.js';
import type { LimitsChange } from '../../model/workflow-safe/limits.js';
import type { rolloutGroup } from '../group.js';
import { createStartInTurn, isRefusal } from '../children/start-in-turn.js';
import {
  groupSignal,
  inRounds,
  limitsSignal,
  stopSignal,
  unawaited,
} from '../steering/messages.js';
import { isGroupNews } from '../steering/input-checks.js';

export type StreamGroups = ReturnType<typeof groupsOf>;

const ENDING = '15m';
/** A group's last workflow task is late if its worker has ended. */
const LOOKS_AT_ADOPTED = ['10s', '60s'] as const;

/** A look at a group costs three events. A terminated group becomes one of the oldest, so these are looked at. */
const MOST_LOOKED_AT = 5;

interface Followed {
  limits: () => LimitsChange;
  running: () => readonly number[];
}

interface Inbox {
  news: GroupNews[];
  receive: (news: GroupNews) => void;
}

/** Call this at the top of a workflow: signals of groups may come before anything else. */
export function handleGroupSignals() {
  const news: GroupNews[] = [];
  let tell = (): void => undefined;
  const receive = (one: GroupNews): void => {
    news.push(one);
    tell();
  };
  setHandler(groupSignal, (one) => {
    if (isGroupNews(one)) receive(one);
  });
  return (plan: StreamPlan, { onNews, ...followed }: Followed & { onNews: () => void }) => {
    tell = onNews;
    return groupsOf(plan, { ...followed, news, receive });
  };
}

/** The group workflows of a stream. They outlive its runs, so they are addressed by id. */
function groupsOf(
  plan: StreamPlan,
  { limits, running: runningNow, news, receive }: Followed & Inbox,
) {
  const reach = (group: number): ExternalWorkflowHandle =>
    getExternalWorkflowHandle(`${plan.stream_id}/${group}`);
  /** Groups that this run has started: it sees when they are closed. */
  const children = new Set<number>();
  const setLimits = inRounds((change) =>
    runningNow().map((group) => reach(group).signal(limitsSignal, change)),
  );
  const start = async (group: number): Promise<void> => {
    const given = limits();
    const child = await startGroup(group, { plan, limits: given });
    children.add(group);
    // A signal to a group that is being started may come before it.
    if (limits() !== given) unawaited(reach(group).signal(limitsSignal, limits()));
    const ended = ({ outcome }: Pick<GroupNews, 'outcome'>): void => {
      children.delete(group);
      if (outcome === null) receive({ group, outcome });
    };
    // A terminated or failed group sends no signal itself.
    child.result().then(ended, () => {
      ended({ outcome: null });
    });
  };
  const restarts = createRestarts(plan.stream_id, start);
  const look = (groups: readonly number[]): void => {
    // It has these limits already, so only the signal could fail.
    for (const group of groups)
      reach(group)
        .signal(limitsSignal, limits())
        .catch(() => {
          receive({ group, outcome: null });
        });
  };
  const lookLater = async (groups: readonly number[]): Promise<void> => {
    for (const pause of LOOKS_AT_ADOPTED) {
      await sleep(pause);
      look(groups);
    }
  };
  return {
    /**
     * Resolves when they run. A group that already runs is adopted. It may be about to end, for the previous run of the
     * stream, so it is looked at again.
     */
    start: async (groups: readonly number[]): Promise<void> => {
      const adopted = await startAll(groups, start);
      if (adopted.length > 0) unawaited(lookLater(adopted));
    },
    /** The same for groups that have announced their end: a refused start is tried again. */
    restart: restarts.start,
    /** Checks groups of the stream's previous run: one that is gone is news. */
    look,
    /** The same for those that no run sees closed, because an earlier one started them: the first few of these. */
    lookAtAdopted: (groups: readonly number[]): void => {
      look(groups.filter((group) => !children.has(group)).slice(0, MOST_LOOKED_AT));
    },
    /** Ends them without an outcome. */
    stop: (groups: readonly number[]): void => {
      restarts.drop(groups);
      for (const group of groups) unawaited(reach(group).signal(stopSignal));
    },
    /** For those that run, in rounds. */
    setLimits,
    /** The news since the last call. The start of a group that has not closed yet is refused. */
    news: () =>
      news.splice(0).filter(({ group, outcome }) => outcome !== null || !children.has(group)),
    hasNews: () => news.length > 0,
    /** Resolves when none of these runs any more, or after a quarter of an hour without news. */
    ended: async (groups: readonly number[], how: 'stop' | 'cancel'): Promise<void> => {
      restarts.drop(groups);
      const running = new Set(groups);
      for (const group of groups) {
        const sent = how === 'stop' ? reach(group).signal(stopSignal) : reach(group).cancel();
        sent.catch(() => running.delete(group));
      }
      const isOver = (): boolean => {
        for (const { group } of news) running.delete(group);
        return running.size === 0;
      };
      await condition(isOver, ENDING);
    },
  };
}

/** Returns those that run already. */
async function startAll(
  groups: readonly number[],
  start: (group: number) => Promise<void>,
): Promise<number[]> {
  const refused: number[] = [];
  const each = async (group: number): Promise<void> => {
    try {
      await start(group);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      refused.push(group);
    }
  };
  await CancellationScope.nonCancellable(() => Promise.all(groups.map(each)));
  return refused;
}

/** A group is restarted once at a time, and not after it was dropped. */
function createRestarts(stream_id: string, start: (group: number) => Promise<void>) {
  const startInTurn = createStartInTurn();
  const waiting = new Set<number>();
  const restart = (group: number): Promise<void> =>
    CancellationScope.nonCancellable(() =>
      startInTurn(() => start(group), {
        workflowId: `${stream_id}/${group}`,
        isOver: () => !waiting.has(group),
      }),
    );
  return {
    start: (groups: readonly number[]): void => {
      for (const group of groups.filter((one) => !waiting.has(one))) {
        waiting.add(group);
        const over = (): void => void waiting.delete(group);
        restart(group).then(over, over);
      }
    },
    drop: (groups: readonly number[]): void => {
      for (const group of groups) waiting.delete(group);
    },
  };
}

async function startGroup(
  group: number,
  { plan, limits }: { plan: StreamPlan; limits: LimitsChange },
): Promise<ChildWorkflowHandle<typeof rolloutGroup>> {
  const { stream_id, filter, max_replacements, pacing, priority } = plan;
  const input = {
    stream_id,
    group,
    num_repeats: pacing.num_repeats,
    max_replacements,
    filter,
    ...(Object.keys(limits).length > 0 && { limits }),
    heartbeat_timeout_ms: plan.heartbeat_timeout_ms,
  };
  return await startChild<typeof rolloutGroup>('rolloutGroup', {
    args: [input],
    workflowId: `${stream_id}/${group}`,
    workflowIdReusePolicy: WorkflowIdReusePolicy.ALLOW_DUPLICATE,
    parentClosePolicy: ParentClosePolicy.ABANDON,
    staticSummary: `group ${group}`,
    // Its rollouts, and their activities, inherit it.
    ...(priority !== undefined && { priority }),
  });
}
