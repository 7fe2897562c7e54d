import type { TestContext } from 'node:test';
import { createVllmService } from '../../../src/generation/vllm/vllm-service.js';
import { gatewayBed } from '../../../test/gateway/gateway-bed.js';
import { createEndings } from '../../bed/endings.js';
import type { SimulatorProcessOptions } from '../../bed/simulator.js';
import { startSimulatorProcess } from '../../bed/simulator.js';
import { makeTemporaryDirectory } from '../../bed/temporary-directory.js';

/** A client of the engine at this URL, with `/v1`. */
export const engineAt = (base_url: string) =>
  createVllmService({
    base_url,
    api_key: null,
    first_token_timeout_ms: 60_000,
    idle_timeout_ms: 60_000,
  });

/** Gateways without a test: they are ended with this. */
export function gateways() {
  const { add, end } = createEndings();
  const context = { after: add } as unknown as TestContext;
  const open = (options: Parameters<typeof gatewayBed>[1]) => gatewayBed(context, options);
  return { context, open, ending: add, end };
}

/** An engine as a process, a client of it, and gateways. */
export async function agentsBed(settings: SimulatorProcessOptions['settings']) {
  const { ending, end, ...rest } = gateways();
  const { path: directory, remove } = await makeTemporaryDirectory('bench-agents');
  ending(remove);
  const simulator = await startSimulatorProcess({ directory, port: 0, settings, logs: false });
  ending(simulator.stop);
  const engine = engineAt(`${simulator.url}/v1`);
  ending(() => engine.close());
  return { simulator, engine, ending, end, ...rest };
}
