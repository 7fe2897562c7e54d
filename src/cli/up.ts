import { parseArgs } from 'node:util';
import { up } from '../dev/up.js';

export async function upCommand(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      exit: { type: 'boolean', default: false },
      'no-batch': { type: 'boolean', default: false },
      config: { type: 'string', default: './temporal.yaml' },
      simulator: { type: 'string' },
    },
  });
  return await up({
    ...values,
    batch: !values['no-batch'],
    simulator: values.simulator ?? null,
  });
}
