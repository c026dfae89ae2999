import { runGroup } from './group';

runGroup('integration', 3, 6);
