import { z } from 'zod';
import type { Bound, WeightControl } from '../weight-control.js';
import type { Ask } from './ask.js';
import { jsonOf, refusalOf } from './replies.js';
import { saysAwake } from './sleep-state.js';
import { refusalFault } from './wire-faults.js';

/** An engine that leaves its memory to others for a while (vLLM: `--enable-sleep-mode`). */

export const SLEEP_ROUTES = ['/sleep', '/wake_up'];

const IsSleeping = z.object({ is_sleeping: z.boolean() });

export function sleepCalls({
  replica,
  control,
  engine,
}: {
  replica: string;
  control: Ask['raw'];
  engine: Ask['raw'];
}): Pick<WeightControl, 'sleep' | 'wakeUp' | 'isAsleep'> {
  /** The body differs from one version to the next. */
  const order = async (call: string, bound: Bound): Promise<void> => {
    const reply = await control(`POST ${call}`, bound);
    if (reply.status !== 200)
      throw refusalFault(refusalOf(reply), { replica, call: `POST ${call}` });
  };
  return {
    sleep: (level, bound) => order(`/sleep?level=${level}&mode=abort`, bound),
    wakeUp: (tag, bound) => order(tag === null ? '/wake_up' : `/wake_up?tags=${tag}`, bound),
    isAsleep: async (bound) => {
      const said = IsSleeping.safeParse(jsonOf(await control('GET /is_sleeping', bound)));
      if (!said.success || !said.data.is_sleeping) return false;
      return !saysAwake(await engine('GET /metrics', bound));
    },
  };
}
