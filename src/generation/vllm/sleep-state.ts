import type { HttpReply } from './http.js';

/** vLLM's `/is_sleeping` says true of an engine that is only paused, too. Its metrics tell the two apart. */

/** The awake gauge of each engine behind the front end. */
const AWAKE = /^vllm:engine_sleep_state\{[^}\n]*\bsleep_state="awake"[^}\n]*\} (\S{1,20})$/gm;

/** Whether these metrics say that every engine is awake. */
export function saysAwake({ status, text }: Pick<HttpReply, 'status' | 'text'>): boolean {
  const states = status === 200 ? [...text.matchAll(AWAKE)] : [];
  return states.length > 0 && states.every(([, state]) => Number(state) === 1);
}
