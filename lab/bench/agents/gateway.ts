import type { TestContext } from 'node:test';
import { createVllmService } from '../../../src/generation/vllm/vllm-service.js';
import { gatewayBed } from '../../../test/gateway/gateway-bed.js';
import { serveParent } from '../contender-process.js';
import type { Address } from './asking.js';

/** The gateway with journals in files; each question opens a life for each agent. */
const [engine = '', agents = '64'] = process.argv.slice(2);
const endings: (() => unknown)[] = [];
const context = { after: (end: () => unknown) => endings.push(end) } as unknown as TestContext;
const service = createVllmService({
  base_url: engine,
  api_key: null,
  first_token_timeout_ms: 60_000,
  idle_timeout_ms: 60_000,
});
const bed = await gatewayBed(context, { engine: service });
let row = 0;

serveParent(
  async () => {
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
  },
  async () => {
    for (const end of endings) await end();
  },
);
