/** Who may import whom: along the data path, never back. */
const only = (from, ...to) => ({
  name: `${from}-imports`,
  severity: 'error',
  comment: `src/${from} imports ${to.length > 0 ? to.join(', ') : 'nothing of the project'} and itself`,
  from: { path: `^src/${from}/` },
  to: { path: '^src/', pathNot: [from, ...to].map((room) => `^src/${room}`) },
});

module.exports = {
  forbidden: [
    only('model'),
    {
      ...only('workflows', 'activities/contract', 'model'),
      comment: 'workflows see the activities’ contract and the model, as types only',
    },
    {
      name: 'workflows-types-only',
      severity: 'error',
      from: { path: '^src/workflows/' },
      to: { path: '^src/(model|activities)/', dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'workflows-run-on-the-sdk-alone',
      severity: 'error',
      from: { path: '^src/workflows/' },
      to: { pathNot: ['^src/', '^node_modules/@temporalio/workflow/'] },
    },
    only('generation', 'model'),
    only('environments', 'model'),
    only('trajectories', 'model'),
    only(
      'activities',
      'model',
      'generation/generation-service',
      'environments/environment',
      'trajectories/trajectory-store',
    ),
    only('simulator', 'model'),
    only(
      'workers',
      'activities',
      'workflows/search-attributes',
      'generation',
      'environments',
      'trajectories',
      'model',
    ),
    only('local', 'activities/contract', 'workers/config', 'workflows/search-attributes', 'model'),
    only(
      'gym',
      'model',
      'activities/contract',
      'environments/gym-agent',
      'environments/http-call',
      'trajectories',
      'local',
      'workers/config',
      'workers/connection-settings',
      'workers/memory',
      'workflows/search-attributes',
    ),
    only('cli', 'gym', 'local', 'workers', 'simulator', 'environments', 'model'),
    {
      name: 'services-know-no-temporal',
      severity: 'error',
      from: { path: '^src/(model|generation|environments|trajectories|simulator)/' },
      to: { path: '^node_modules/@temporalio/' },
    },
    { name: 'no-cycles', severity: 'error', from: { path: '^src' }, to: { circular: true } },
  ],
  options: {
    tsPreCompilationDeps: 'specify',
    tsConfig: { fileName: 'tsconfig.json' },
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: { extensions: ['.ts', '.js'] },
  },
};
