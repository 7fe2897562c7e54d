import { setHandler } from '@temporalio/workflow';
import type { Heard } from '../../model/workflow-safe/hold.js';
import { hears } from '../../model/workflow-safe/hold.js';
import { holdingSignal } from '../steering/messages.js';

/** Notes when holders were heard. Whether a hold is over is computed when somebody asks, so there is no timer. */
export function watchHolders(before: Heard | undefined): () => Heard {
  let heard: Heard = before ?? { since: Date.now(), last: [] };
  setHandler(holdingSignal, (news) => {
    heard = hears(heard, { news, at: Date.now() });
  });
  return () => heard;
}
