import { serveParent } from '../contender-process.js';
import type { Address } from './asking.js';
import { engineAt, gateways } from './bed.js';

/** The gateway with journals in files; each question opens a life for each agent. */
const [engine = '', agents = '64'] = process.argv.slice(2);
const { open, end } = gateways();
const bed = await open({ engine: engineAt(engine) });
let row = 0;

serveParent(async () => {
  const lives: Address[] = [];
  for (let agent = 0; agent < Number(agents); agent++) {
    const given = {
      row: row++,
      rollout: { max_seq_len: 200_000 },
      generation: { max_new_tokens: 8000 },
    };
    const { url, headers } = await bed.open(given);
    lives.push({ url, headers });
  }
  return lives;
}, end);
