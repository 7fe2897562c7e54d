import {
  CancellationScope,
  CancelledFailure,
  allHandlersFinished,
  condition,
  continueAsNew,
  isCancellation,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import type { StreamPlan, StreamResult } from '../activities/contract/stream.js';
import type { LimitsChange } from '../model/workflow-safe/limits.js';
import { whyText } from '../model/workflow-safe/stream/next-step.js';
import { withFailures, withStarvationReported } from '../model/workflow-safe/stream/state.js';
import { admitGroups, dropGroups, planStream, putStep, watchServed } from './activity-options.js';
import type { Deliveries } from './stream/deliveries.js';
import { deliver } from './stream/deliveries.js';
import { checkReached } from './steering/input-checks.js';
import { roomProblem } from './steering/event-budget.js';
import { steer } from './steering/steer.js';
import { planUnlessStopped } from './steering/stop.js';
import type { StreamGroups } from './stream/stream-groups.js';
import { handleGroupSignals } from './stream/stream-groups.js';
import type { Stream } from './stream/stream-state.js';
import { membersOf, openStream, runningOf } from './stream/stream-state.js';
import { failureOf } from './ending.js';
import { watchHistory } from './long-history.js';
import type { TrainerUpdates } from './stream/trainer-updates.js';
import { handleTrainerUpdates } from './stream/trainer-updates.js';
import { showStream } from './stream/stream-view.js';
import { lookWhileStepsAreAwaited } from './views/looks.js';

/** What a run of a stream passes to the next one. */
interface Reached {
  plan: StreamPlan;
  limits: LimitsChange;
}

/**
 * A stream plays groups continuously and delivers them step by step. Every event is in the store before anything
 * follows from it. Started again under its id, the stream continues from there and adopts groups that still run.
 */
export async function rolloutStream(
  input: unknown,
  reached: Reached | null = null,
): Promise<StreamResult> {
  checkReached(reached);
  const view = showStream();
  const openGroups = handleGroupSignals();
  const trainer = handleTrainerUpdates(view.why);
  const steering = steer('the stream is ending', reached?.limits);
  const history = watchHistory();

  // 1. Validate the request, and find what the store has of the stream.
  const plan = reached?.plan ?? (await planUnlessStopped(() => planStream(input), view));
  const stream = openStream(plan);
  const running = () => runningOf(stream);
  const groups = openGroups(plan, { limits: steering.limits, running, onNews: stream.touch });
  const deliveries = deliver(plan.stream_id, stream.touch);
  const parts: StreamParts = { stream, groups, deliveries, trainer };
  view.opened(stream);
  trainer.open(stream, deliveries);
  steering.running(
    {
      setMaxInFlight: stream.setMaxInFlight,
      setLimits: groups.setLimits,
      // A change of limits is a signal to each group that runs.
      roomProblem: ({ limits }) =>
        limits === undefined ? null : roomProblem(workflowInfo(), running().length),
    },
    { ...plan, batch_id: plan.stream_id },
  );
  view.onStop(stream.touch);

  // 2. Admit groups, take their outcomes and deliver steps, until it is stopped.
  const watching = watchPolicy(stream);
  // While a trainer waits, look why, and for groups that have ended without a word.
  const looks = lookWhileStepsAreAwaited(plan, {
    seen: view.seen,
    running: () => membersOf(stream),
    step: () => ({ next: stream.pacing().next_step, isAsked: trainer.isAsked() }),
    onLook: () => {
      groups.lookAtAdopted(running());
    },
  });
  try {
    if (reached === null) {
      // A group may have ended since the stream was planned. Started again, it would play its failed members again.
      takeOutcomes(parts);
      await groups.start(running());
    } else {
      groups.look(running());
      history.allow(EVENTS_OF_LOOK * running().length);
    }
    while (!view.isStopped()) {
      if (await moveOn(parts, history.isFull())) continue;
      view.show();
      // While rows are deleted, requests are answered here.
      if (history.isFull() && !deliveries.areBusy())
        await goOnInNewRun(parts, { input, limits: steering.limits, isStopped: view.isStopped });
      await stream.news();
    }
  } catch (error) {
    if (!isCancellation(error)) throw error;
  }

  // 3. End what runs. Groups that have not ended continue when the stream is started again.
  watching.cancel();
  looks.cancel();
  trainer.close('the stream is stopped; starting its id again continues it');
  steering.closing();
  view.enter('stopping');
  const { consideredCancelled } = CancellationScope.current();
  await CancellationScope.nonCancellable(async () => {
    await groups.ended(running(), consideredCancelled ? 'cancel' : 'stop');
    await condition(() => !deliveries.areBusy() && allHandlersFinished());
  });
  view.enter('done');
  if (consideredCancelled) throw new CancelledFailure('the stream was cancelled; its steps stay');
  const { next_step, admitted, out } = stream.pacing();
  return { schema_version: 1, stream_id: plan.stream_id, steps: next_step, admitted, out };
}

interface StreamParts {
  stream: Stream;
  groups: StreamGroups;
  deliveries: Deliveries;
  trainer: TrainerUpdates;
}

/** The signal to a group, and its arrival. */
const EVENTS_OF_LOOK = 2;
/** How many groups are put and started at once; news waits that long. */
const MOST_AT_ONCE = 32;

/** Makes one move, if there is one. `isLast`: the run ends and begins nothing more. */
async function moveOn(running: StreamParts, isLast: boolean): Promise<boolean> {
  const { stream, groups, trainer, deliveries } = running;
  const { stream_id } = stream.plan;
  if (groups.hasNews()) {
    groups.restart(takeOutcomes(running));
    return true;
  }
  const next = stream.next();
  if (next.dropped.length > 0) {
    await dropGroups({ stream_id, groups: next.dropped });
    groups.stop(next.dropped.filter((group) => runningOf(stream).includes(group)));
    for (const group of next.dropped) stream.out(group, 'dropped');
    return true;
  }
  if (trainer.isAsked()) {
    if (next.ready) {
      const fact = await putStep({ stream_id, fact: stream.factOf(next) });
      stream.put(fact);
      writeRows(fact.step, running);
      return true;
    }
    if (next.why.kind === 'starved') {
      trainer.fail({ type: 'StreamStarved', message: whyText(next.why) });
      stream.change(withStarvationReported);
      return true;
    }
    if (next.why.kind === 'ended')
      trainer.fail({ type: 'StreamEnded', message: whyText(next.why) });
  }
  // Groups that start while rows are written would delay the answer to the trainer.
  if (isLast || deliveries.areWriting()) return false;
  const room = stream.room();
  if (room === 0) return false;
  await admit(Math.min(room, MOST_AT_ONCE), running);
  return true;
}

async function admit(count: number, { stream, groups }: StreamParts): Promise<void> {
  const { stream_id, service } = stream.plan;
  const { admitted: first } = stream.pacing();
  const admitted = await admitGroups({ stream_id, first, count, born: stream.born(), service });
  stream.admitted(admitted);
  await groups.start(admitted.map(({ group }) => group));
}

/** Takes the outcomes of groups. Returns those that something else stopped or terminated. */
function takeOutcomes({ stream, groups }: StreamParts): number[] {
  const again = new Set<number>();
  for (const { group, outcome, ...news } of groups.news()) {
    const failures = 'failures' in news ? news.failures : undefined;
    stream.change((now) => withFailures(now, { group, failures }));
    if (outcome === 'complete') stream.completed(group);
    else if (outcome !== null) stream.out(group, outcome);
    else if (runningOf(stream).includes(group)) again.add(group);
  }
  return [...again];
}

/** Runs beside the next step; a request for this step waits for them. */
function writeRows(step: number, { stream, deliveries }: StreamParts): void {
  const { keep_steps } = stream.plan;
  const write = async (): Promise<void> => {
    await deliveries.rowsOf(step);
    const through = step - (keep_steps ?? Infinity);
    if (through < stream.now().kept_from) return;
    await deliveries.forget(through);
    stream.forgotten(through);
  };
  // The next request for the step has them written again.
  write().catch(() => undefined);
}

/** For someone to repair the deployment. */
const WATCH_AGAIN_MS = 60_000;

/** Runs until it is cancelled. If nothing is published, the trainer's version counts. */
function watchPolicy(stream: Stream): CancellationScope {
  const scope = new CancellationScope();
  const { service } = stream.plan;
  const watch = async (): Promise<void> => {
    if (service === null) return;
    for (;;) {
      try {
        stream.serves(await watchServed({ service, known: stream.served() }));
      } catch (error) {
        if (isCancellation(error)) throw error;
        const waiting = { service: `policy ${service}`, message: failureOf(error).message };
        stream.serves({ ...stream.served(), waiting });
        await sleep(WATCH_AGAIN_MS, { summary: 'until the policy is watched again' });
      }
    }
  };
  scope.run(watch).catch(() => undefined);
  return scope;
}

/** Waiting requests are answered as not ready, and ask the next run. */
async function goOnInNewRun(
  { stream, deliveries, trainer, groups }: StreamParts,
  {
    input,
    limits,
    isStopped,
  }: { input: unknown; limits: () => LimitsChange; isStopped: () => boolean },
): Promise<void> {
  trainer.close('the stream continues in a new run: ask again');
  // News that comes just then is handled first, because the new run would not have it.
  const isNews = (): boolean => groups.hasNews() || isStopped();
  await condition(() => isNews() || (allHandlersFinished() && !deliveries.areBusy()));
  if (isNews() || CancellationScope.current().consideredCancelled) {
    trainer.reopen();
    return;
  }
  await continueAsNew<typeof rolloutStream>(input, {
    plan: stream.forNextRun(),
    limits: limits(),
  });
}
