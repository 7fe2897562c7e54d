import { defineQuery, defineSignal } from '@temporalio/workflow';
import type { BatchProgress, RolloutProgress, Tally, Waiting } from '../activities/contract.js';

/** Ends what runs, keeps what is there; nothing new starts after it. For batches, slices and rollouts. */
export const stopSignal = defineSignal('stop');

/** From an activity of this workflow: its engine is absent, or (null) back. */
export const waitingSignal = defineSignal<[Waiting | null]>('waiting');

/** From a batch to a slice: how many rollouts it may have in flight. */
export const shareSignal = defineSignal<[number]>('share');

/** From a slice (by its first row) to its batch, at each tenth of its size. */
export const tallySignal = defineSignal<[{ first: number; tally: Tally }]>('tally');

export const batchProgressQuery = defineQuery<BatchProgress>('progress');
export const sliceProgressQuery = defineQuery<Tally>('progress');
export const rolloutProgressQuery = defineQuery<RolloutProgress>('progress');
