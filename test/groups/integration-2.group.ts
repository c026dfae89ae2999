import { runGroup } from './group';

runGroup('integration', 2, 6);
