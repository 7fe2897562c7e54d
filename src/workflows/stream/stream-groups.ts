import type { ChildWorkflowHandle, ExternalWorkflowHandle } from '@temporalio/workflow';
import {
  CancellationScope,
  ParentClosePolicy,
  WorkflowIdReusePolicy,
  condition,
  getExternalWorkflowHandle,
  setHandler,
  startChild,
} from '@temporalio/workflow';
import type { GroupNews, StreamPlan } from '../../activities/contract/stream.js';
import type { LimitsChange } from '../../model/workflow-safe/limits.js';
import type { rolloutGroup } from '../group.js';
import { createStartInTurn, isRefusal } from '../children/start-in-turn.js';
import { groupSignal, limitsSignal, stopSignal, unawaited } from '../steering/messages.js';
import { isGroupNews } from '../steering/signal-checks.js';

/** The group workflows of a stream. They outlive its runs, so they are addressed by id. */
export interface StreamGroups {
  /** Resolves when they run. A group that already runs is adopted. */
  start(groups: readonly number[]): Promise<void>;
  /** The same for groups that have announced their end: a refused start is tried again. */
  restart(groups: readonly number[]): void;
  /** Checks groups of the stream's previous run: one that is gone is news. */
  look(groups: readonly number[]): void;
  /** Ends them without an outcome. */
  stop(groups: readonly number[]): void;
  setLimits(change: LimitsChange, groups: readonly number[]): void;
  /** Returns the news since the last call. */
  news(): GroupNews[];
  hasNews(): boolean;
  /** Resolves when none of these runs any more, or after a quarter of an hour without news. */
  ended(groups: readonly number[], how: 'stop' | 'cancel'): Promise<void>;
}

const ENDING = '15m';

interface Inbox {
  news: GroupNews[];
  receive: (news: GroupNews) => void;
  /** Called with each. */
  onNews: () => void;
}

/** Call this at the top of a workflow: signals of groups may come before anything else. */
export function handleGroupSignals(): (
  plan: StreamPlan,
  { limits, onNews }: { limits: () => LimitsChange; onNews: () => void },
) => StreamGroups {
  const inbox: Inbox = {
    news: [],
    receive: (news) => {
      inbox.news.push(news);
      inbox.onNews();
    },
    onNews: () => undefined,
  };
  setHandler(groupSignal, (news) => {
    if (isGroupNews(news)) inbox.receive(news);
  });
  return (plan, { limits, onNews }) => {
    inbox.onNews = onNews;
    return groupsOf(plan, { limits, inbox });
  };
}

function groupsOf(
  plan: StreamPlan,
  { limits, inbox: { news, receive } }: { limits: () => LimitsChange; inbox: Inbox },
): StreamGroups {
  const reach = (group: number): ExternalWorkflowHandle =>
    getExternalWorkflowHandle(`${plan.stream_id}/${group}`);
  const startInTurn = createStartInTurn();
  const start = async (group: number): Promise<void> => {
    const child = await startGroup(group, { plan, limits: limits() });
    const ended = (end: GroupNews): void => {
      if (end.outcome === null) receive(end);
    };
    // A terminated or failed group sends no signal itself.
    child.result().then(ended, () => {
      receive({ group, outcome: null });
    });
  };
  const all = async (
    groups: readonly number[],
    one: (group: number) => Promise<void>,
  ): Promise<void> => {
    const each = (group: number): Promise<void> => one(group).catch(unlessItRuns);
    await CancellationScope.nonCancellable(() => Promise.all(groups.map(each)));
  };
  return {
    start: (groups) => all(groups, start),
    restart: (groups) => {
      const never = (): boolean => false;
      all(groups, (group) => startInTurn(() => start(group), never)).catch(() => undefined);
    },
    look: (groups) => {
      // They have these limits already, so only the signal could fail.
      for (const group of groups)
        reach(group)
          .signal(limitsSignal, limits())
          .catch(() => {
            receive({ group, outcome: null });
          });
    },
    stop: (groups) => {
      for (const group of groups) unawaited(reach(group).signal(stopSignal));
    },
    setLimits: (change, groups) => {
      for (const group of groups) unawaited(reach(group).signal(limitsSignal, change));
    },
    news: () => news.splice(0),
    hasNews: () => news.length > 0,
    ended: async (groups, how) => {
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

function unlessItRuns(error: unknown): void {
  if (!isRefusal(error)) throw error;
}

async function startGroup(
  group: number,
  { plan, limits }: { plan: StreamPlan; limits: LimitsChange },
): Promise<ChildWorkflowHandle<typeof rolloutGroup>> {
  const { stream_id, filter, max_replacements, pacing } = plan;
  const input = {
    stream_id,
    group,
    num_repeats: pacing.num_repeats,
    max_replacements,
    filter,
    ...(Object.keys(limits).length > 0 && { limits }),
  };
  return await startChild<typeof rolloutGroup>('rolloutGroup', {
    args: [input],
    workflowId: `${stream_id}/${group}`,
    workflowIdReusePolicy: WorkflowIdReusePolicy.ALLOW_DUPLICATE,
    parentClosePolicy: ParentClosePolicy.ABANDON,
    staticSummary: `group ${group}`,
  });
}
