//! Options of the four algorithms: those that have no meaning are refused before anything is done,
//! and so are, for a graph that is there, those that need another one.

use std::fmt::Debug;

use millstream::bfs::{self, Bfs, BfsOptions, Delta};
use millstream::cc::{self, Cc, CcOptions};
use millstream::flow::{Context, Devices};
use millstream::graph::CsrGraph;
use millstream::pagerank::{self, PageRank, PageRankOptions, Precision};
use millstream::sssp::{self, Sssp, SsspOptions};
use millstream::traversal::Error as TraversalError;

fn context() -> Context {
    Context::builder().devices(Devices::host(2)).build().unwrap()
}

fn path() -> CsrGraph {
    CsrGraph::from_weighted_edges(3, &[(0, 1, 1u32), (1, 2, 1)]).unwrap()
}

fn upload<A, E: Debug>(
    context: &Context,
    upload: impl Future<Output = Result<A, E>>,
) -> Result<A, E> {
    context.block_on(upload).unwrap()
}

#[test]
fn options_of_bfs_are_refused_at_once() {
    let (context, path) = (context(), path());
    let mut wrong = BfsOptions::default();
    wrong.delta = Delta::Step(-1.0);
    let is_refused = |error: &bfs::Error| {
        matches!(error, bfs::Error::Traversal(TraversalError::Delta { delta: -1.0 }))
    };
    assert!(is_refused(&upload(&context, Bfs::with_options(&context, &path, wrong)).unwrap_err()));
    let mut bfs = upload(&context, Bfs::new(&context, &path)).unwrap();
    assert!(is_refused(&bfs.set_options(wrong).unwrap_err()));
    assert_eq!(*bfs.options(), BfsOptions::default());
}

#[test]
fn options_of_sssp_are_refused_at_once() {
    let (context, path) = (context(), path());
    let with = |change: fn(&mut SsspOptions)| {
        let mut options = SsspOptions::default();
        change(&mut options);
        options
    };
    let mut sssp = upload(&context, Sssp::new(&context, &path)).unwrap();
    let wrong = with(|options| options.cutoff = Some(f64::NAN));
    for error in [
        upload(&context, Sssp::with_options(&context, &path, wrong)).unwrap_err(),
        sssp.set_options(wrong).unwrap_err(),
    ] {
        assert!(matches!(error, sssp::Error::Cutoff { .. }), "{error}");
    }
    assert_eq!(*sssp.options(), SsspOptions::default());
    let another = match sssp.algorithm() {
        sssp::Algorithm::Asynchronous => with(|its| its.algorithm = sssp::Algorithm::Stepping),
        _ => with(|its| its.algorithm = sssp::Algorithm::Asynchronous),
    };
    let error = sssp.set_options(another).unwrap_err();
    let fixed = TraversalError::ChosenAtUpload { option: "algorithm" }.to_string();
    assert_eq!(error.to_string(), fixed);
    // What Auto has come to is no other.
    let mut same = SsspOptions::default();
    same.algorithm = sssp.algorithm();
    sssp.set_options(same).unwrap();
    sssp.set_options(SsspOptions::default()).unwrap();
}

#[test]
fn options_of_pagerank_are_refused_at_once() {
    let (context, path) = (context(), path());
    let with = |change: &dyn Fn(&mut PageRankOptions)| {
        let mut options = PageRankOptions::default();
        change(&mut options);
        options
    };
    let wrong = with(&|options| options.damping = 1.0);
    let refused = upload(&context, PageRank::with_options(&context, &path, wrong)).unwrap_err();
    assert!(matches!(refused, pagerank::Error::Question(_)), "{refused}");
    let exact = |options: &mut PageRankOptions| options.tolerance = 1e-9;
    let double = |options: &mut PageRankOptions| options.precision = Precision::F64;
    let any = |_: &mut PageRankOptions| ();
    type Change<'a> = &'a dyn Fn(&mut PageRankOptions);
    let cases: [(Change<'_>, Change<'_>, Option<&str>); 8] = [
        (&any, &any, None),
        (&any, &exact, Some("precision")),
        (&any, &double, Some("precision")),
        // Ranks in f64 serve any tolerance.
        (&exact, &any, None),
        (&double, &exact, None),
        (&exact, &|its| its.precision = Precision::F32, Some("precision")),
        (&any, &|its| its.algorithm = pagerank::Algorithm::Push, Some("algorithm")),
        (&any, &|its| its.weighted = true, Some("use of weights")),
    ];
    for (number, (first, then, fixed)) in cases.into_iter().enumerate() {
        let ranks = PageRank::with_options(&context, &path, with(first));
        let mut ranks = upload(&context, ranks).unwrap();
        let before = ranks.options().clone();
        match (ranks.set_options(with(then)), fixed) {
            (Ok(()), None) => assert_eq!(ranks.options().damping, before.damping),
            (Err(error), Some(option)) => {
                let fixed = TraversalError::ChosenAtUpload { option }.to_string();
                assert_eq!(error.to_string(), fixed, "case {number}");
                assert_eq!(*ranks.options(), before, "case {number}");
            }
            (result, _) => panic!("case {number}: {result:?}"),
        }
        assert!(upload(&context, ranks.run()).unwrap().converged, "case {number}");
    }
}

#[test]
fn options_of_components_are_refused_at_once() {
    let (context, path) = (context(), path());
    let mut wrong = [CcOptions::default(); 2];
    wrong[0].packet_bytes = 7;
    wrong[1].buffers = Some(0);
    let mut cc = upload(&context, Cc::new(&context, &path)).unwrap();
    for wrong in wrong {
        for error in [
            upload(&context, Cc::with_options(&context, &path, wrong)).unwrap_err(),
            upload(&context, Cc::run_streamed(&context, 3, [(0, 1)], wrong)).unwrap_err(),
            cc.set_options(wrong).unwrap_err(),
        ] {
            assert!(matches!(error, cc::Error::Traversal(_)), "{error}");
        }
    }
    assert_eq!(*cc.options(), CcOptions::default());
}
