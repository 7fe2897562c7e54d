import { fieldIn } from '../../model/foreign-object.js';
import { preview } from '../../model/problems.js';
import { badRequest } from '../request/refusals.js';
import { unsupported } from './shaping.js';

/**
 * The functions among an agent's tools: those alone it executes by itself. Others would be the server's: they are left
 * out and noted. `name`: the members that lead to a function's name. null: there are none.
 */
export function functionsIn(
  tools: readonly unknown[],
  { name, ignored }: { name: readonly string[]; ignored: Set<string> },
): unknown[] | null {
  const functions = tools.filter((tool, k) => {
    const type = fieldIn(tool, 'type');
    if (typeof type !== 'string')
      throw badRequest(`tools[${k}].type: expected a string, got ${preview(type)}`, {
        param: `tools[${k}]`,
      });
    if (type === 'custom')
      throw unsupported(`tools[${k}].type`, { expected: 'function', got: type });
    if (type !== 'function') {
      ignored.add(`tools (${type})`);
      return false;
    }
    if (typeof name.reduce<unknown>(fieldIn, tool) === 'string') return true;
    throw badRequest(`tools[${k}].${name.join('.')}: expected a string`, { param: `tools[${k}]` });
  });
  return functions.length === 0 ? null : functions;
}
