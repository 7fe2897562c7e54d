import { uuid4 } from '@temporalio/workflow';
import type {
  AbandonedTransfer,
  BeginAnswer,
  PolicyState,
  PublishResult,
} from '../../activities/contract/policy.js';
import { attachCheckpoint, releaseHolder, transferActivity } from '../activity-options.js';
import { failureOf } from '../ending.js';
import type { Serving } from './bring.js';
import { bring, resultOf, stateOf } from './bring.js';

/** Weights that a trainer puts into the engines itself: one activity holds them, one lets them go. */

export async function begin(
  input: unknown,
  { service, heartbeat_ms, shown, heard }: Serving,
): Promise<BeginAnswer> {
  const nonce = uuid4().slice(0, 8);
  const { answer, view } = await transferActivity(
    'beginTransfer',
    heartbeat_ms,
  )({ service, nonce, begin: input, heard: heard() });
  shown.recorded(view);
  return answer;
}

export async function finish(
  input: unknown,
  { service, heartbeat_ms, shown }: Serving,
): Promise<PublishResult> {
  const finishing = transferActivity('finishTransfer', heartbeat_ms);
  const { view, version, faults, paused_s } = await finishing({ service, finish: input });
  const began = Date.now() - paused_s * 1000;
  return resultOf(view, { version, faults, paused_s, began, notes: [], shown });
}

export async function abandon(input: unknown, serving: Serving): Promise<PolicyState> {
  const { service, heartbeat_ms } = serving;
  const abandoning = transferActivity('abandonTransfer', heartbeat_ms);
  const left = await abandoning({ service, why: 'its holder gave it up', abandon: input });
  return await repaired(left, serving);
}

/** Ends a transfer whose holder is silent, as if all its engines were touched. */
export async function endTransfer(why: string, serving: Serving): Promise<void> {
  const { service, heartbeat_ms, shown } = serving;
  const nonce = shown.record()?.ticket?.nonce;
  if (nonce === undefined) return;
  const left = await transferActivity('abandonTransfer', heartbeat_ms)({ service, why, nonce });
  await repaired(left, serving);
}

export async function attach(input: unknown, serving: Serving): Promise<PolicyState> {
  const left = await attachCheckpoint({ service: serving.service, attach: input });
  return await repaired(left, serving);
}

/** Its holder, or an operator, lets others bring weights. */
export async function release(input: unknown, { service, shown }: Serving): Promise<PolicyState> {
  const view = await releaseHolder({ service, release: input });
  shown.recorded(view);
  return stateOf(view);
}

/**
 * Loads the files of a version that its sender did not bring. Where it did, or left no files, replicas are restored as
 * after any update.
 */
export async function repaired(
  { repair, view }: AbandonedTransfer,
  serving: Serving,
): Promise<PolicyState> {
  const { shown } = serving;
  shown.recorded(view);
  if (repair !== null) {
    const at_once = Object.keys(view.replicas).length;
    const plan = { ...repair, at_once, mode: 'abort' as const, drain_limit: '1m', notes: [], view };
    try {
      await bring(plan, { ...serving, began: Date.now() });
    } catch (error) {
      // It is in `updates`, and replicas are restored.
      failureOf(error);
    }
  }
  return stateOf(shown.record() ?? view);
}
