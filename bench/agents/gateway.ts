import type { TestContext } from 'node:test';
import { createVllmService } from '../../src/generation/vllm/vllm-service.js';
import { gatewayBed } from '../../test/gateway/gateway-bed.js';
import { AGENTS } from './conversation.js';

/** The gateway with journals in files; each question opens a life for each agent. */
const [engine = ''] = process.argv.slice(2);
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

process.on('message', () => {
  void (async () => {
    const lives: { url: string; headers: Record<string, string> }[] = [];
    for (let agent = 0; agent < AGENTS; agent++) {
      const { url, headers } = await bed.open({ row: row++, rollout: { max_seq_len: 100_000 } });
      lives.push({ url, headers });
    }
    process.send?.({ value: lives });
  })();
});
process.once('SIGTERM', () => {
  void Promise.all(endings.map((end) => end())).finally(() => process.exit(0));
});
process.send?.({ value: null });
