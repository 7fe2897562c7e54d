import type { FaultSpec } from '../settings.js';
import type { Endpoint, Endpoints } from './endpoint.js';

/** An engine that waits inside a transfer answers nothing that its workers or its scheduler would have to. */
export function createHang(cleared: (fault: FaultSpec) => Promise<void>) {
  let over: Promise<void> | null = null;
  return {
    hang: async (fault: FaultSpec): Promise<void> => {
      over = cleared(fault);
      await over;
      over = null;
    },
    waitingFor: (endpoints: Endpoints): Endpoints => {
      const after =
        (endpoint: Endpoint): Endpoint =>
        async (exchange, fault) => {
          if (over !== null) await over;
          await endpoint(exchange, fault);
        };
      return Object.fromEntries(
        Object.entries(endpoints).map(([path, methods]) => [
          path,
          Object.fromEntries(Object.entries(methods).map(([name, one]) => [name, after(one)])),
        ]),
      );
    },
  };
}
